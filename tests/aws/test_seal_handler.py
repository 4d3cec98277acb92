"""The nightly seal in an account: by recorded checksums, signed by the deployment's key, and verified by reading all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from msgspec.structs import force_setattr

from lambdas.seal_knowledge.handler import make_handler
from opx.domain.scopes import Identity
from opx.ingestion.corpus.catalog import version_entry
from opx.ingestion.corpus.chunk_files import chunk_file
from opx.operations.context import Caller, Context
from opx.ports.tables import DOCUMENTS, LIFECYCLE
from opx.runtime.functions import FunctionFailedError
from opx.runtime.metrics import Metric
from opx.settings import DEPLOYED_KEY
from opx_assurance.capability import assurance
from opx_assurance.operations import CompareSeal, compare_seal
from opx_assurance.seal.records import Seal
from opx_assurance.seal.sealing import SealComparison
from opx_assurance.seal.signing import SigningKey, write_new_key
from opx_testing.fake_time import FakeTime
from tests.aws.cloud import BUCKET, Cloud, a_cloud
from tests.support.fakes import FakeContext, function_logs
from tests.support.telemetry_support import Named, measured

Captured = pytest.CaptureFixture[str]
Logged = pytest.LogCaptureFixture
DAY = 86_400.0
DISK, VAULT = "documents/runbooks/disk.md", "clients/acme/documents/runbooks/vault.md"
KEY_NAME = "dev-opx-seal/signing-key"


class Call(FakeContext):
    remaining = 900_000

    def get_remaining_time_in_millis(self) -> int:
        return self.remaining


class Short(Call):
    """Of a call that has time for one batch."""

    remaining = 0


@pytest.fixture
def time() -> FakeTime:
    return FakeTime(now=1_900_000_000.0)


@pytest.fixture
def cloud(aws: boto3.Session, time: FakeTime) -> Iterator[Cloud]:
    with function_logs(), a_cloud(aws, clock=time.clock) as deployed:
        deployed.s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        aws.client("secretsmanager").create_secret(Name=KEY_NAME)  # as a stack makes it: without a value
        settings = deployed.services.installation.settings
        force_setattr(settings, "signing_key", DEPLOYED_KEY + KEY_NAME)
        deployed.put(DISK, "# Disk full\n\nMove the files to another volume.\n")
        deployed.put(VAULT, "# Vault\n\nThree key holders unseal the vault.\n")
        deployed.deliver()
        time.now += 60
        yield deployed


@pytest.fixture
def key(aws: boto3.Session, cloud: Cloud, tmp_path: Path) -> SigningKey:
    made = write_new_key(tmp_path / "key.pem")
    text = (tmp_path / "key.pem").read_text()
    aws.client("secretsmanager").put_secret_value(SecretId=KEY_NAME, SecretString=text)
    return made


def run(cloud: Cloud, context: FakeContext | None = None, **event: object) -> dict[str, Any]:
    found: dict[str, Any] = make_handler(lambda: cloud.services)(event, context or Call())
    return found


def last(cloud: Cloud) -> Seal:
    return cloud.services.part(assurance).sealing().store.last()


def verified(cloud: Cloud, **known: str) -> SealComparison:
    """Calls the operation of `opx seal --verify`, which reads all bytes."""
    return compare_seal(Context(cloud.services, Caller(Identity(), owns_system=True)), CompareSeal(**known))


def object_reads(cloud: Cloud) -> list[str]:
    """Keys of objects whose bytes are read from now on."""
    read: list[str] = []
    events = cloud.s3.meta.events
    events.register("before-parameter-build.s3.GetObject", lambda params, **_: read.append(params["Key"]))
    return read


def contradictions(output: str) -> list[float]:
    return measured(output)[Named("OpxKnowledge", Metric.SEAL_CONTRADICTIONS, frozenset({("environment", "local")}))]


# -- sealing


def test_a_night_has_one_seal_that_verifies(cloud: Cloud, capsys: Captured) -> None:
    capsys.readouterr()
    found = run(cloud)
    assert (found["outcome"], found["count"]) == ("sealed", 0)
    assert contradictions(capsys.readouterr().out) == [0.0]
    assert verified(cloud).is_same
    assert run(cloud)["outcome"] == "done"


def test_recorded_checksums_stand_for_bytes(cloud: Cloud) -> None:
    whole = cloud.services.part(assurance).sealing().seal()
    read = object_reads(cloud)
    assert run(cloud, accept=True)["seal"]["root"] == whole.root
    assert [name for name in read if not name.endswith(".metadata.json")] == []
    assert last(cloud).is_recorded
    assert not whole.is_recorded


def test_what_has_no_recorded_checksum_is_read(cloud: Cloud) -> None:
    documents = cloud.services.tables.table(DOCUMENTS)
    (item,) = [one for one in cloud.services.tables.every_item(DOCUMENTS) if one.get("clientId") == "acme"]
    documents.put({**item, "provenance": {**item["provenance"], "objectChecksum": ""}, "chunksChecksum": ""})
    read = object_reads(cloud)
    run(cloud)
    assert VAULT in read
    assert DISK not in read
    assert verified(cloud).is_same


def test_versions_of_one_text_that_share_their_files_have_the_same_leaves_by_either_way(cloud: Cloud) -> None:
    """A change of metadata alone is a further version, whose chunk file replaces that of the one before."""
    documents = cloud.services.tables.table(DOCUMENTS)
    (item,) = [one for one in cloud.services.tables.every_item(DOCUMENTS) if one.get("clientId") == "acme"]
    key_id = item["documentKey"]
    documents.put({**item, "entry": version_entry(key_id, 2), "version": 2})
    documents.put({**item, "chunksChecksum": "1" * 64, "outlineChecksum": "2" * 64})
    run(cloud)
    assert verified(cloud).is_same


@pytest.mark.parametrize("version", ["", "null"])
def test_objects_whose_version_can_be_overwritten_are_read(cloud: Cloud, version: str) -> None:
    """S3 names it so in a bucket that keeps no versions, or kept none at the time."""
    events = cloud.s3.meta.events
    events.register("after-call.s3.HeadObject", lambda parsed, **_: parsed.update(VersionId=version))
    cloud.put(DISK, "# Disk full\n\nBuy a larger one.\n")
    cloud.deliver()
    read = object_reads(cloud)
    run(cloud)
    assert DISK in read


# -- signatures


def test_without_a_key_the_seal_is_not_signed_and_the_log_has_that(cloud: Cloud, caplog: Logged) -> None:
    assert run(cloud)["seal"]["signature"] == ""
    assert f"seals are not signed: there is no secret {KEY_NAME}" in caplog.text
    assert f"sealed: root {last(cloud).root}, not signed" in caplog.text


def test_the_deployments_key_signs(cloud: Cloud, key: SigningKey) -> None:
    assert run(cloud)["seal"]["publicKey"] == key.public
    assert verified(cloud, public_key=key.public).is_trusted


def test_a_seal_that_was_replaced_by_somebody_without_the_key_fails_the_call(
    cloud: Cloud, key: SigningKey, time: FakeTime
) -> None:
    run(cloud)
    table = cloud.services.tables.table(LIFECYCLE)
    item = table.get({"subject": "seal", "entry": "last"})
    assert item
    content = json.loads(item["seal"])
    table.put({**item, "seal": json.dumps({**content, "at": "2020-01-01T00:00:00Z"})})
    time.now += DAY
    with pytest.raises(FunctionFailedError, match="AlteredSealError"):
        run(cloud)


# -- contradictions


def altered(found: dict[str, Any]) -> list[str]:
    return [one["name"] for one in found["altered"]]


def tamper_with_row(cloud: Cloud) -> None:
    """Changes a recorded checksum without a new version."""
    (item,) = [one for one in cloud.services.tables.every_item(DOCUMENTS) if one.get("clientId") == "acme"]
    cloud.services.tables.table(DOCUMENTS).put({**item, "chunksChecksum": "0" * 64})


def test_a_changed_row_is_named_by_metric_log_and_result_until_it_is_accepted(
    cloud: Cloud, time: FakeTime, capsys: Captured, caplog: Logged
) -> None:
    run(cloud)
    first = last(cloud)
    tamper_with_row(cloud)
    for _ in range(2):
        time.now += DAY
        capsys.readouterr()
        caplog.clear()
        found = run(cloud)
        assert (found["outcome"], altered(found)) == ("altered", [f"version 1 of {VAULT}"])
        assert contradictions(capsys.readouterr().out) == [1.0]
        assert f"altered since the last seal, and not ingested: versions version 1 of {VAULT}" in caplog.text
        assert last(cloud) == first
    assert run(cloud, accept=True)["outcome"] == "sealed"
    time.now += DAY
    assert run(cloud)["outcome"] == "sealed"


def test_accepting_takes_the_word_true(cloud: Cloud, time: FakeTime) -> None:
    run(cloud)
    tamper_with_row(cloud)
    time.now += DAY
    assert run(cloud, accept="no")["outcome"] == "altered"


def test_an_object_that_was_overwritten_without_an_event_is_named(cloud: Cloud, time: FakeTime) -> None:
    run(cloud)
    cloud.s3.put_object(Bucket=BUCKET, Key=DISK, Body=b"# Disk full\n\nErase everything.\n")
    time.now += DAY
    assert altered(run(cloud)) == [DISK]


def test_a_change_that_waits_to_be_ingested_is_no_contradiction(cloud: Cloud, time: FakeTime) -> None:
    run(cloud)
    body = cloud.put(DISK, "# Disk full\n\nBuy a larger one.\n")
    cloud.services.corpus.announcements.record([(body, time.now)])
    time.now += DAY
    assert run(cloud)["outcome"] == "sealed"


def test_bytes_of_a_chunk_file_are_compared_by_verifying_alone(cloud: Cloud, time: FakeTime) -> None:
    run(cloud)
    document = next(iter(cloud.services.corpus.catalog.in_category("runbooks/procedures")))
    name = chunk_file(document.key, document.document_id)
    cloud.s3.put_object(Bucket=BUCKET, Key=name, Body=b"{}\n")
    time.now += DAY
    assert run(cloud)["outcome"] == "sealed"
    named = f"version 1 of {document.scope.prefix}{document.source}"
    assert [(one.part, one.kind, one.name) for one in verified(cloud).differences] == [("versions", "altered", named)]


# -- in several runs


def test_a_seal_that_takes_longer_than_a_function_goes_on_in_the_next_call(
    cloud: Cloud, time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cloud.services.part(assurance).sealing().seal()
    monkeypatch.setattr("lambdas.seal_knowledge.handler.SECONDS_TO_SPARE", 0.0)
    time.now += DAY
    outcomes: list[str] = []
    while not outcomes or outcomes[-1] == "unfinished":
        cloud.services.installation.clock = lambda: time.now
        outcomes.append(run_slowly(cloud, time)["outcome"])
    assert outcomes[-1] == "sealed"
    assert outcomes.count("unfinished") > 1
    assert last(cloud).root == whole.root


def run_slowly(cloud: Cloud, time: FakeTime) -> dict[str, Any]:
    """A call in which each look at the clock takes a second: it has time for one batch."""

    def clock() -> float:
        time.now += 1
        return time.now

    cloud.services.installation.clock = clock
    return run(cloud, Short())
