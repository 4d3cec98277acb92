"""The removal of a client from a bucket with versions, DynamoDB, and an index behind HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator

import boto3
import pytest

from opx.domain.scopes import Identity, Scope
from opx.errors import ClientRemovedError, InvalidInputError
from opx.ingestion.corpus.clients import ClientState
from opx.ports.tables import ALL_TABLES, EMBEDDINGS, IDEMPOTENCY, PROJECTS, USES
from opx_aws.object_versions import S3ObjectHistory
from opx_telemetry.capability import baselines
from tests.aws.cloud import BUCKET, Cloud, a_cloud
from tests.support.fakes import function_logs
from tests.support.graph_support import an_origin

CLIENT, OTHER = "acme", "acme-b"
DISK = "documents/runbooks/procedures/disk.md"


@pytest.fixture(scope="module")
def cloud(aws_session: boto3.Session) -> Iterator[Cloud]:
    """Two clients with two versions of a document, one that was deleted, a question, values and another name each."""
    from moto import mock_aws

    with mock_aws(), function_logs(), a_cloud(aws_session) as deployed:
        deployed.s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        for client in (CLIENT, OTHER):
            fill(deployed, client)
        yield deployed


def fill(cloud: Cloud, client: str) -> None:
    old = f"clients/{client}/documents/runbooks/procedures/old.md"
    cloud.put(old, f"# Old\n\nA {client} heron.")
    relation = f'relationships: [ "service:checkout{client}|DEPENDS_ON|service:pay{client}" ]'
    for scope in (Scope(client), Scope(client, project_id="shop")):
        cloud.put(scope.prefix + DISK, f"# Disk of {client}\n\n{relation}\n\nThe {client} walrus of {scope.key}.")
    cloud.deliver()
    cloud.put(Scope(client).prefix + DISK, f"# Disk of {client}\n\n{relation}\n\nThe {client} zebrafish.")
    cloud.delete(old)
    cloud.deliver()
    services = cloud.services
    services.questions.for_reader(Identity(client, "shop")).query("quantum gearbox")
    services.part(baselines).add([{"node": "n", "metric": "cpu", "value": 1.0}], scope=Scope(client))
    services.graph.aliases.register(Scope(client), f"service:{client}-co", f"service:checkout{client}")
    used = {"scopeKey": Scope(client).key, "documentKey": f"incident of {client}", "day": "2026-11-01"}
    services.tables.table(USES).put({**used, "expiresAt": 4_000_000_000})
    services.graph.relink_queue.add(an_origin(scope=Scope(client)), [f"host:{client}-db-1"])
    services.corpus.announcements.record([(cloud.event(Scope(client).prefix + DISK), 1_700_000_000.0)])
    cloud.s3.create_multipart_upload(Bucket=BUCKET, Key=f"clients/{client}/documents/big.bin")


def items(cloud: Cloud) -> set[str]:
    """Every item of every table, but for hashes of events, which expire in a day."""
    specs = [spec for spec in ALL_TABLES if spec is not IDEMPOTENCY]
    return {
        f"{spec.name} {json.dumps(item, sort_keys=True, default=str)}"
        for spec in specs
        for item in cloud.items(spec.name)
    }


def versions(cloud: Cloud) -> set[tuple[str, str]]:
    page = cloud.s3.list_object_versions(Bucket=BUCKET)
    return {(one["Key"], one["VersionId"]) for one in (*page.get("Versions", []), *page.get("DeleteMarkers", []))}


def is_clients(text: str) -> bool:
    return CLIENT in text.replace(OTHER, "")


def test_all_of_a_client_goes_and_nothing_of_another(cloud: Cloud) -> None:
    before, objects, inventory = items(cloud), versions(cloud), cloud.services.tenants.offboarding().count(OTHER)
    late = cloud.event(Scope(CLIENT).prefix + DISK)
    waited: list[float] = []
    report = cloud.services.tenants.offboarding(sleep=waited.append).remove(CLIENT, by="ann")

    assert report.left == {}
    assert {name for name, count in report.stores.items() if not count.before} == {
        "sources and streams",
        "cached contexts",
        "references into the index",
        "failed items",
        "orders of webhook deliveries",
        "waiting messages",
        "captured entries",
        "patterns and their occurrences",
        "outcomes and warnings",
        "records of lifted holds",
        "segments of words",
        "files of bulk jobs",
        "copies for a managed service, with versions",
    }
    assert all(check.before for check in report.checks.values())
    after = items(cloud)
    gone = {item for item in before - after if not item.startswith(EMBEDDINGS.name) and "#corpus" not in item}
    assert [item for item in gone if not is_clients(item) or OTHER in item] == []
    assert not [item for item in after if is_clients(item) and not item.startswith(PROJECTS.name)]
    assert cloud.services.tenants.offboarding().count(OTHER) == inventory
    left = versions(cloud)
    assert {key for key, _ in objects - left if not is_clients(key)} == set()
    assert {key for key, _ in left - objects} == {report.object_key}
    assert cloud.services.corpus.clients.get(CLIENT).state is ClientState.REMOVED  # type: ignore[union-attr]

    # What comes late changes nothing, and what is put is refused.
    cloud.send(late)
    assert cloud.deliver() == []
    assert items(cloud) == after
    with pytest.raises(ClientRemovedError):
        cloud.services.ingestion.manager_of(Scope(CLIENT)).put_document("runbooks/procedures", "# New\n\nText.", {})
    with pytest.raises(ClientRemovedError):
        cloud.services.corpus.upload_signer.sign_put(Scope(CLIENT).prefix + DISK, size=1, sha256="0" * 64)  # type: ignore[union-attr]
    assert waited[0] == 5.0


def test_history_takes_folders_alone(cloud: Cloud) -> None:
    history = S3ObjectHistory(BUCKET, cloud.s3)
    for prefix in ("", "/", "clients/acme"):
        with pytest.raises(InvalidInputError):
            history.erase(prefix)


def test_more_versions_than_a_call_takes_go_in_several(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opx_aws.object_versions._AT_ONCE", 2)
    for number in range(5):
        cloud.s3.put_object(Bucket=BUCKET, Key="managed/clients/many/x.txt", Body=str(number).encode())
    history = S3ObjectHistory(BUCKET, cloud.s3)
    assert len(list(history.held("managed/clients/many/"))) == 5
    assert history.erase("managed/clients/many/") == 5
    assert list(history.held("managed/clients/many/")) == []
