"""The drill of docs/backup.md: everything goes from a laptop to AWS and back in archives, and nothing is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boto3

from infra.constructs.backup_plan import BACKED_UP
from opx.domain.documents import DocumentKey
from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.domain.scopes import Identity, Scope, scope_of_key
from opx.lifecycle.retention.holds import Hold, Holds
from opx.operations.system import System
from opx.ports.tables import ALL_TABLES, KEYS, LIFECYCLE, SOURCES, USES
from opx.settings import Settings
from opx.system import bootstrap
from opx_assurance.archive.exporting import ARCHIVED
from opx_assurance.capability import assurance
from opx_telemetry.capability import baselines
from tests.e2e.systems import SystemUnderTest, a_system
from tests.support.captures import capture_failure_solution
from tests.support.dynamo_tables import create_table
from tests.support.fakes import WordsEmbedder

PROCEDURES = "runbooks/procedures"
ASKED = ("restart the zebrafish", "the gannet lags", "zebrafish", "the long one", "gannet")
READERS = (Identity("acme", "shop"), Identity("acme"), Identity("other"), Identity())


def fill(services: System) -> None:
    services.corpus.projects.assign("acme", "shop", "web")
    scopes = (Scope(), Scope("acme"), Scope("acme", project_id="shop"), Scope("acme", group_id="web"), Scope("other"))
    for scope in scopes:
        manager = services.ingestion.manager_of(scope)
        for text in ("heron", "zebrafish"):  # two versions
            document = f"# Restart of {scope.key}\n\nRestart the {text}. depends_on: service:pay\n"
            manager.ingest_document("internal", PROCEDURES, document, {"source": "restart", "tags": ["birds"]})
    manager = services.ingestion.manager_of(Scope("acme"))
    manager.delete(manager.ingest_document("internal", PROCEDURES, "# Gone\n\nThe egret.", {"source": "gone"}))
    described = {
        "source": "long",
        "severity": "high",
        "author": "ann",
        "tags": [f"tag-{n}-{'x' * 60}" for n in range(15)],
    }
    manager.ingest_document("internal", PROCEDURES, "# The long one\n\nMuch is said of it.", described)
    manager.ingest_document("internal", PROCEDURES, "# Due\n\nThe auk.", {"source": "due", "expires": "2035-01-01"})
    keep_beside(services)


def keep_beside(services: System) -> None:
    services.graph.aliases.register(Scope("acme"), "service:payments", "service:pay", by="ann")
    services.tables.table(USES).put({"scopeKey": Scope("acme").key, "documentKey": "heron", "day": "2026-03-31"})
    services.part(baselines).add([{"node": "web-1", "metric": "cpu", "value": 1.5}], scope=Scope("acme"))
    identity = Identity("acme", "shop", "bob")
    fact = ("shop", "fixer", "deploy", "The gannet lags", "", ["Restart the gannet"], "kafka")
    capture_failure_solution(services.learning.capture(identity), *fact, success_verified=True)
    services.learning.checkpoints(identity).process_checkpoint("shop", "manual")
    answer = services.questions.for_reader(identity).search("gannet", QueryConfig(min_confidence=0.0))
    receipt, found = (answer.receipt or {})["receiptId"], answer.results[0].document_id
    services.learning.outcomes(identity).record(receipt, found, "resolved")
    services.lifecycle.measure_usage()
    Holds(services.tables.table(LIFECYCLE), services.clock).add(Hold("matter 7", "ann", within=Scope("acme").key))


def documents_of(services: System) -> dict[tuple[str, str], list[Any]]:
    """Every version of every document with its text; where its object is differs."""
    found = {}
    for item in services.tables.every_item(KEYS):
        key = DocumentKey(scope_of_key(item["scope"]), item["source"])
        found[key.scope.key, key.source] = [
            (
                replace(version, location="", source_uri=""),
                [chunk.to_json() for chunk in services.ingestion.pipeline.read_chunks(key, version.document_id)],
            )
            for version in services.corpus.catalog.versions(key)
        ]
    return found


def rows_of(services: System) -> dict[str, list[str]]:
    return {
        table.entry: sorted(
            repr(sorted(item.items())) for item in services.tables.every_item(table.spec) if table.keeps(item)
        )
        for table in ARCHIVED
        if not table.private and table.spec is not SOURCES
    }


def answers_of(services: System) -> dict[tuple[str, str, str], list[tuple[str, str, float]]]:
    found = {}
    for reader in READERS:
        query = services.questions.for_reader(reader, recorded=False)
        for text in ASKED:
            results = query.query(text, QueryConfig(min_confidence=0.0))
            results_found = [(result.content, result.document_id, round(result.score, 4)) for result in results]
            found[reader.client_id, reader.project_id, text] = sorted(results_found)
    return found


def roots_of(services: System) -> dict[str, str]:
    """Roots of the sealed parts, but for the audit log, which is exported on request only."""
    parts = services.part(assurance).sealing().seal().parts
    return {one.part: one.root for one in parts if not one.part.startswith("audit")}


def texts(results: list[tuple[str, str, float]]) -> list[tuple[str, str]]:
    return [(content, document_id) for content, document_id, _ in results]


def moved(source: SystemUnderTest, target: SystemUnderTest, path: Path) -> None:
    exported = source.services.part(assurance).exporter().write(path)
    assert exported.notes == []
    report = target.services.part(assurance).importer().run(path)
    target.work()
    assert report.failed == 0
    assert target.reasons() == {}


def test_everything_goes_from_a_laptop_to_aws_and_back(tmp_path: Path, aws: boto3.Session) -> None:
    with (
        a_system("embedded", tmp_path / "laptop", aws) as laptop,
        a_system("nextgen", tmp_path, aws) as cloud,
        a_system("embedded", tmp_path / "other", aws) as other,
    ):
        fill(laptop.services)
        laptop.work()
        expected = documents_of(laptop.services), rows_of(laptop.services), answers_of(laptop.services)
        assert sum(map(len, expected[0].values())) == 14
        assert min(len(rows) for name, rows in expected[1].items() if "gaps" not in name) > 0
        assert sum(map(len, expected[2].values())) > 40

        for source, target in ((laptop, cloud), (cloud, other)):
            target.time.sleep(20_000.0)
            moved(source, target, tmp_path / f"{id(target)}.opx")
            assert documents_of(target.services) == expected[0]
            assert rows_of(target.services) == expected[1]
            answers = answers_of(target.services)
            assert {query: texts(results) for query, results in answers.items()} == {
                query: texts(results) for query, results in expected[2].items()
            }
            assert target is cloud or answers == expected[2]  # engines judge a little differently
            assert target.services.part(assurance).reconciler(thorough=True).run().differences == []
        assert roots_of(cloud.services) == roots_of(other.services) == roots_of(laptop.services)


def test_restored_tables_and_bucket_are_exported_by_their_names(tmp_path: Path, aws: boto3.Session) -> None:
    """AWS Backup restores into new tables and a new bucket, without those that are caches."""
    with a_system("nextgen", tmp_path, aws) as cloud, a_system("embedded", tmp_path / "new", aws) as new:
        for scope in (Scope(), Scope("acme")):
            manager = cloud.services.ingestion.manager_of(scope)
            for text in ("heron", "zebrafish"):
                manager.ingest_document("internal", PROCEDURES, f"# Restart\n\nRestart the {text}.", {"source": "it"})
                cloud.work()
        keep_beside(cloud.services)
        cloud.work()
        expected = documents_of(cloud.services), rows_of(cloud.services)
        restored = Settings(backend="aws", corpus_bucket="restored", table_prefix="restored-")
        restore(aws, restored)
        with bootstrap(restored, clock=cloud.time.clock, embedder=WordsEmbedder(), aws=aws.client) as services:
            assert services.part(assurance).exporter().write(tmp_path / "all.opx").notes == []
        new.time.sleep(20_000.0)
        assert new.services.part(assurance).importer().run(tmp_path / "all.opx").failed == 0
        new.work()
        assert documents_of(new.services) == expected[0]
        assert rows_of(new.services) == expected[1]


def restore(aws: boto3.Session, settings: Settings) -> None:
    """Copies bucket and tables as AWS Backup does, and makes the rest unreadable."""
    tables: Any = aws.client("dynamodb")
    objects: Any = aws.client("s3")
    for spec in BACKED_UP:
        create_table(tables, spec, settings.table_prefix)
        for item in tables.scan(TableName=spec.name)["Items"]:
            tables.put_item(TableName=settings.table_prefix + spec.name, Item=item)
    for spec in ALL_TABLES:
        tables.delete_table(TableName=spec.name)
    objects.create_bucket(
        Bucket=settings.corpus_bucket, CreateBucketConfiguration={"LocationConstraint": aws.region_name}
    )
    for entry in objects.list_objects_v2(Bucket="corpus")["Contents"]:
        source = {"Bucket": "corpus", "Key": entry["Key"]}
        objects.copy_object(Bucket=settings.corpus_bucket, Key=entry["Key"], CopySource=source)
