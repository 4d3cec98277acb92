"""Uploads in parts to a local server and to a bucket: what is interrupted goes on with the parts that are missing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
import requests

from lambdas.manage_knowledge.handler import make_handler
from opx.domain.policy import READ_SCOPE, WRITE_SCOPE
from opx.domain.scopes import Identity
from opx.errors import ObjectNotFoundError
from opx.operations.context import Caller
from opx.operations.system import System
from opx.operations.uploads import PART_BYTES
from opx.settings import Settings
from opx.system import bootstrap
from opx_serve.uploads import KEEP_SECONDS, PartFolder
from tests.aws.cloud import a_cloud
from tests.support.api_requests import a_token, call
from tests.support.fakes import WordsEmbedder, function_logs
from tests.support.serving_support import serving

SOURCE = "runbooks/large.md"
KEY = f"clients/acme/documents/{SOURCE}"
DATA = b"# Large\n\n" + b"A line of the large runbook.\n" * (2 * PART_BYTES // 29 + 1000)
PARTS = [DATA[at : at + PART_BYTES] for at in range(0, len(DATA), PART_BYTES)]

Send = Callable[..., tuple[int, Any]]
Put = Callable[[str, Mapping[str, str], bytes], int]


def part(number: int, data: bytes | None = None) -> dict[str, Any]:
    found = PARTS[number - 1] if data is None else data
    return {"number": number, "size": len(found), "sha256": hashlib.sha256(found).hexdigest()}


class UploadPartsContract:
    """Subclasses provide `send`, which sends a request of a writer of the client acme to an operation by its name and returns
    status and reply; `put`, which sends a part and returns the status; and the `system`."""

    def begun(self, send: Send, *numbers: int, **more: object) -> dict[str, Any]:
        body = {"source": SOURCE, "size": len(DATA), "parts": [part(number) for number in numbers], **more}
        status, found = send("prepare_parts", body)
        assert status == 200, found
        return dict(found)

    def test_parts_in_any_order_become_the_file(self, send: Send, put: Put, system: System) -> None:
        found = self.begun(send, 3, 1, 2, metadata={"tags": ["large"]})
        assert (found["objectKey"], found["partBytes"], found["arrived"]) == (KEY, PART_BYTES, [])
        for one in found["puts"]:
            assert put(one["url"], one["headers"], PARTS[one["number"] - 1]) == 200
        assert system.store.head(KEY) is None
        assert send("complete_upload", self.whole(found))[0] == 202
        with system.store.open(KEY) as stream:
            assert stream.read() == DATA
        info = system.store.head(KEY)
        assert info is not None
        assert "large" in "".join(info.metadata.values())

    def test_an_interrupted_upload_needs_the_missing_parts_alone(self, send: Send, put: Put, system: System) -> None:
        first = self.begun(send, 1)
        put(first["puts"][0]["url"], first["puts"][0]["headers"], PARTS[0])
        again = self.begun(send, 2, 3, uploadId=first["uploadId"])
        assert (again["uploadId"], again["arrived"]) == (first["uploadId"], [1])
        for one in again["puts"]:
            put(one["url"], one["headers"], PARTS[one["number"] - 1])
        send("complete_upload", self.whole(again))
        with system.store.open(KEY) as stream:
            assert stream.read() == DATA

    def test_a_file_with_missing_parts_is_not_stored(self, send: Send, put: Put, system: System) -> None:
        found = self.begun(send, 1, 3)
        for one in found["puts"]:
            put(one["url"], one["headers"], PARTS[one["number"] - 1])
        status, refused = send("complete_upload", self.whole(found))
        assert (status, refused["error"]["message"]) == (400, "parts of the file are missing: 2")
        assert system.store.head(KEY) is None

    def test_an_upload_that_has_ended_begins_anew(self, send: Send, put: Put) -> None:
        found = self.begun(send, 1, 2, 3)
        for one in found["puts"]:
            put(one["url"], one["headers"], PARTS[one["number"] - 1])
        assert send("complete_upload", self.whole(found))[0] == 202
        assert send("complete_upload", self.whole(found))[0] == 400
        again = self.begun(send, uploadId=found["uploadId"])
        assert again["uploadId"] != found["uploadId"]
        assert again["arrived"] == []

    @pytest.mark.parametrize(
        "wrong",
        [
            {"size": 101 * 1024 * 1024},
            {"parts": [{"number": 4, "size": 1, "sha256": "0" * 64}]},
            {"source": "runbooks/large.md.metadata.json"},
            {"source": "../large.md"},
        ],
    )
    def test_a_wrong_upload_is_refused(self, send: Send, wrong: dict[str, Any]) -> None:
        status, _ = send("prepare_parts", {"source": SOURCE, "size": len(DATA), **wrong})
        assert status in (400, 413)

    def whole(self, found: Mapping[str, Any]) -> dict[str, Any]:
        return {"source": SOURCE, "size": len(DATA), "uploadId": found["uploadId"]}


class TestLocalParts(UploadPartsContract):
    @pytest.fixture
    def system(self, tmp_path: Path) -> Iterator[System]:
        with bootstrap(Settings(home=str(tmp_path / "home")), embedder=WordsEmbedder()) as made:
            yield made

    @pytest.fixture
    def server(self, system: System) -> Iterator[Any]:
        tokens = {one: Caller(Identity(one), token_scopes=frozenset({WRITE_SCOPE})) for one in ("acme", "rival")}
        tokens["reader"] = Caller(Identity("acme"), token_scopes=frozenset({READ_SCOPE}))
        with serving(system, tokens) as found:
            yield found

    @pytest.fixture
    def send(self, server: Any) -> Send:
        paths = {"prepare_parts": "/uploads/parts", "complete_upload": "/uploads/complete"}

        def sent(name: str, body: dict[str, Any], client: str = "acme") -> tuple[int, Any]:
            found = server("POST", paths[name], body, token=client)
            return found.status, found.json

        return sent

    @pytest.fixture
    def put(self, server: Any) -> Put:
        return lambda url, _, data: int(server("PUT", urlsplit(url).path, data).status)

    def test_uploads_of_others_are_unknown(self, send: Send, put: Put) -> None:
        """S3 knows an upload by its key too, which its double doesn't."""
        found = self.begun(send, 1)
        body = {"source": SOURCE, "size": len(DATA), "uploadId": found["uploadId"]}
        status, theirs = send("prepare_parts", body, client="rival")
        assert (status, theirs["arrived"]) == (200, [])
        assert theirs["uploadId"] != found["uploadId"]
        assert send("complete_upload", self.whole(found), client="rival")[0] == 400

    def test_another_part_is_not_stored(self, send: Send, put: Put) -> None:
        found = self.begun(send, 1)
        assert put(found["puts"][0]["url"], {}, b"x" + PARTS[0][1:]) == 400
        assert self.begun(send, uploadId=found["uploadId"])["arrived"] == []

    def test_a_reader_may_not_upload(self, send: Send) -> None:
        assert send("prepare_parts", {"source": SOURCE, "size": 1}, client="reader")[0] == 403

    def test_old_parts_are_removed(self, tmp_path: Path) -> None:
        parts = PartFolder(tmp_path / "uploads")
        old = parts.begin("documents/a.md", {}, 0.0)
        now = (tmp_path / "uploads" / old).stat().st_mtime
        parts.begin("documents/a.md", {}, now + KEEP_SECONDS - 1)
        assert parts.sizes("documents/a.md", old) == {}
        parts.begin("documents/a.md", {}, now + KEEP_SECONDS + 1)
        with pytest.raises(ObjectNotFoundError):
            parts.sizes("documents/a.md", old)


class TestBucketParts(UploadPartsContract):
    @pytest.fixture
    def system(self, aws: boto3.Session) -> Iterator[System]:
        with function_logs(), a_cloud(aws) as cloud:
            yield cloud.services

    @pytest.fixture
    def send(self, system: System) -> Send:
        handler = make_handler(lambda: system)

        def sent(name: str, body: dict[str, Any], client: str = "acme") -> tuple[int, Any]:
            return call(handler, name, caller=a_token(client), body=body)

        return sent

    @pytest.fixture
    def put(self) -> Put:
        return lambda url, headers, data: int(
            requests.put(url, data=data, headers=dict(headers), timeout=20).status_code
        )
