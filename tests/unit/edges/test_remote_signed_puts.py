"""Files go to the addresses that S3 is given by botocore, with the headers that those were signed for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from opx.adapters.connections import Connections
from opx.edges.client import RemoteClient, bearer
from opx.edges.loading import Uploads
from opx.ingestion.files import OBJECT_METADATA, FileToIngest
from opx.ports import UploadSigner
from opx.settings import Settings
from opx.system import bootstrap
from tests.doubles.http_double import HttpDouble, Request, Response
from tests.support.remote_support import aws_credentials

DATA = "# Größe\n\ntext\n".encode()


class Gateway(HttpDouble):
    """Returns one signed address for every request, and stores what is put."""

    signer: UploadSigner

    def _answer(self, request: Request) -> Response:
        if request.method == "PUT":
            return Response(200)
        body = request.json()
        put = self.signer.sign_put(
            "documents/ä b.md",
            size=body["size"],
            sha256=body["sha256"],
            metadata={OBJECT_METADATA: '{"name": "ä b.md"}'},
        )
        address = {"url": put.url, "headers": dict(put.headers)}
        return Response(200, {"state": "upload", "objectKey": "documents/ä b.md", "put": address})


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    aws_credentials(monkeypatch)
    with Gateway("none") as gateway:
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", gateway.endpoint)
        signer = bootstrap(Settings(backend="aws", corpus_bucket="corpus")).corpus.upload_signer
        assert signer is not None
        gateway.signer = signer
        yield gateway


def test_every_signed_header_is_sent_once_and_the_bytes_are_those_of_the_checksum(
    gateway: Gateway, tmp_path: Path
) -> None:
    path = tmp_path / "ä b.md"
    path.write_bytes(DATA)
    client = RemoteClient(gateway.endpoint, bearer("token"), Connections(), pause=lambda seconds: None)
    (put,) = Uploads(client).put_files([FileToIngest(path, "ä b.md")], {})
    client.close()
    assert put.outcome is None
    request, sent = gateway.requests
    signed = parse_qs(urlsplit(sent.target).query)["X-Amz-SignedHeaders"][0].split(";")
    assert {"content-length", "host", "x-amz-checksum-sha256"} < set(signed)
    assert set(signed) <= sent.headers.keys()
    assert sent.headers["content-length"] == str(len(DATA))
    assert (sent.body, request.json()["sha256"]) == (DATA, hashlib.sha256(DATA).hexdigest())
    assert "authorization" not in sent.headers
