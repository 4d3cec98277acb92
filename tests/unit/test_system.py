"""The composition root: which adapter each address chooses, what may be given, and what bootstrapping leaves alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opx.adapters.embedded.home import FolderStorage, HomeIndexes, HomeTables, HomeWorkQueue
from opx.adapters.embedded.secrets import FileSecrets
from opx.domain.queries import QueryConfig
from opx.errors import InvalidInputError
from opx.ingestion.indexing.query_vectors import CachedQueries
from opx.operations.system import System
from opx.ports.tables import PROJECTS
from opx.settings import Settings
from opx.system import bootstrap
from opx_aws.ports import DynamoTables, FunctionWorkQueue, OpenSearchIndexes, S3Storage
from opx_aws.secrets import ManagedSecrets
from tests.support.builders import ports_of
from tests.support.fakes import WordsEmbedder

QUEUE = "https://sqs.eu-central-1.amazonaws.com/123456789012/ingest"


def no_client(*_: object, **__: object) -> Any:
    """Stands for a client of AWS that is never called."""
    return object()


def a_system(folder: Path, **settings: str) -> System:
    return bootstrap(Settings(home=str(folder / "home"), **settings), aws=no_client)  # type: ignore[arg-type]


def test_the_backend_is_the_short_form_for_all_addresses(tmp_path: Path) -> None:
    embedded, deployed = a_system(tmp_path), a_system(tmp_path, backend="aws")
    assert isinstance(embedded.tables, HomeTables)
    assert isinstance(embedded.storage, FolderStorage)
    assert isinstance(embedded.work, HomeWorkQueue)
    assert isinstance(embedded.ports.indexes, HomeIndexes)
    assert isinstance(embedded.ports.secrets, FileSecrets)
    assert isinstance(deployed.tables, DynamoTables)
    assert isinstance(deployed.storage, S3Storage)
    assert isinstance(deployed.work, FunctionWorkQueue)
    assert isinstance(deployed.ports.indexes, OpenSearchIndexes)
    assert isinstance(deployed.ports.secrets, ManagedSecrets)


def test_each_port_is_chosen_by_its_own_address(tmp_path: Path) -> None:
    system = a_system(
        tmp_path,
        store="s3://corpus",
        index="opensearch://search.example:9200/team",
        embedder="bedrock:amazon.titan-embed-text-v2:0",
        secrets="secretsmanager",
    )
    assert isinstance(system.tables, HomeTables)
    assert isinstance(system.work, HomeWorkQueue)
    assert system.storage.location("documents/a.md") == "s3://corpus/documents/a.md"
    assert isinstance(system.ports.indexes, OpenSearchIndexes)
    assert (system.ports.indexes.own_name, system.ports.indexes.subject) == ("team", "index team")
    assert isinstance(system.indexing.embedder, CachedQueries)
    assert system.indexing.embedder.model_id == "amazon.titan-embed-text-v2:0/1024"
    assert isinstance(system.ports.secrets, ManagedSecrets)


def test_the_ports_of_a_vendor_are_made_once_for_all_schemes(tmp_path: Path) -> None:
    ports = ports_of(a_system(tmp_path, backend="aws"))
    assert len({ports._vendor(name) for name in ("aws", "aoss", "bedrock", "dynamodb", "s3", "secretsmanager")}) == 1


def test_a_deployment_has_the_collection_of_its_settings_first_and_the_other_one_if_it_is_there(tmp_path: Path) -> None:
    first = {"backend": "aws", "search_endpoint": "https://blue.example"}
    both = {**first, "next_search_endpoint": "https://green.example"}
    assert a_system(tmp_path, **first).ports.indexes.collections == ("blue",)
    assert a_system(tmp_path, **both).ports.indexes.collections == ("blue", "green")
    after = a_system(tmp_path, **both, search_collection="green").ports.indexes
    assert (after.collections, after.subject, after.own_name) == (
        ("green", "blue"),
        "index opx-knowledge",
        "opx-knowledge in green",
    )


@pytest.mark.parametrize(
    ("name", "value"), [("search_collection", "red"), ("next_search_generation", ""), ("next_search_own_ids", "maybe")]
)
def test_a_collection_that_can_not_be_is_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidInputError, match=f"OPX_{name.upper()} must be"):
        Settings(**{name: value})  # type: ignore[arg-type]


def test_an_address_wins_over_the_backend(tmp_path: Path) -> None:
    system = a_system(tmp_path, backend="aws", secrets="folder", queue=QUEUE, tables="dynamodb:team-")
    assert isinstance(system.ports.secrets, FileSecrets)
    assert isinstance(system.tables, DynamoTables)
    assert system.tables._prefix == "team-"


@pytest.mark.parametrize(
    ("port", "address", "allowed"),
    [
        ("index", "pgvector://host/name", "opensearch://HOST:PORT/NAME"),
        ("store", "ftp://host", "s3://BUCKET"),
        ("tables", "redis:", "dynamodb:PREFIX"),
        ("queue", "kafka://host", "https://"),
        ("embedder", "openai:model", "bedrock:MODEL"),
        ("secrets", "vault", "secretsmanager"),
    ],
)
def test_an_unknown_address_is_refused_with_what_there_is(port: str, address: str, allowed: str) -> None:
    with pytest.raises(InvalidInputError, match=f"OPX_{port.upper()} must be .*{allowed}"):
        Settings(**{port: address})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "index", ["opensearch://", "opensearch://host:9200", "opensearch:///name", "opensearch://host:x/name"]
)
def test_a_node_needs_a_host_and_a_name(tmp_path: Path, index: str) -> None:
    with pytest.raises(InvalidInputError, match="opensearch://HOST:PORT/NAME"):
        _ = a_system(tmp_path, index=index).index.derives_ids


@pytest.mark.parametrize("store", ["s3:", "s3://", "s3:///"])
def test_a_bucket_has_a_name(store: str) -> None:
    with pytest.raises(InvalidInputError, match="s3://BUCKET"):
        Settings(store=store)


def test_a_missing_region_of_aws_is_reported_with_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(InvalidInputError, match="set AWS_DEFAULT_REGION"):
        bootstrap(Settings(home=str(tmp_path), tables="dynamodb:")).tables.table(PROJECTS).get({})


@pytest.mark.parametrize("port", ["store", "tables"])
def test_functions_cannot_work_on_files_of_this_machine(port: str) -> None:
    others = {"store": "s3://corpus", "tables": "dynamodb:"} | {port: "folder"}
    with pytest.raises(InvalidInputError, match=f"OPX_{port.upper()} must not be 'folder'"):
        Settings(queue=QUEUE, **others)  # type: ignore[arg-type]


def test_the_password_of_a_node_is_not_shown() -> None:
    settings = Settings(index="opensearch+https://opx:hunter2@search.example/team", secrets="folder")
    assert "hunter2" not in repr(settings)
    assert settings.own_addresses == {"index": "opensearch+https://search.example/team", "secrets": "folder"}
    assert Settings().own_addresses == {}


def test_given_adapter_replaces_that_of_the_settings(tmp_path: Path) -> None:
    embedder = WordsEmbedder()
    assert bootstrap(Settings(home=str(tmp_path)), embedder=embedder).indexing.embedder is embedder


def test_a_mistyped_port_is_refused(tmp_path: Path) -> None:
    """Nor does it type-check: of an error that is ignored and isn't there, `make lint` says so."""
    with pytest.raises(TypeError, match="no port embeder"):
        bootstrap(Settings(home=str(tmp_path)), embeder=WordsEmbedder())  # type: ignore[call-arg]


def test_earlier_programs_find_what_they_import_and_call(tmp_path: Path) -> None:
    from opx.system import bootstrap as earlier

    with earlier(Settings(home=str(tmp_path)), embedder=WordsEmbedder()) as system:
        system.manager.ingest_document("internal", "runbooks/procedures", "# Disk full\n\nUse du.\n")
        assert system.questions.for_reader().query("disk full", QueryConfig(min_confidence=0))[0].title == "Disk full"


def test_bootstrapping_opens_nothing(tmp_path: Path) -> None:
    a_system(tmp_path).close()
    assert list(tmp_path.iterdir()) == []
