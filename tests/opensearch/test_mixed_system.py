"""A system whose tables and corpus are in a folder and whose index is on a node, by the ordinary commands.
This is the first step of a team that outgrows one machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from opensearchpy import OpenSearch

from opx.settings import env_name
from tests.opensearch.node import LocalNode

pytestmark = pytest.mark.opensearch

DISK = "# Disk full\n\n## First steps\n\nFind the biggest directories with du, then rotate the logs.\n"
VAULT = "# Vault sealed\n\nUnseal the vault with three of the five keys.\n"


@dataclass
class Commands:
    """`opx` as a process of its own, over a home folder and an index on the node."""

    folder: Path
    index: str

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        ours = {env_name("home"): str(self.folder / "home"), **({env_name("index"): self.index} if self.index else {})}
        environ = {name: value for name, value in os.environ.items() if not name.startswith("OPX_")} | ours
        command = [sys.executable, "-c", "from opx.system import command; command()", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder, env=environ)

    def __call__(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def found(self, question: str) -> list[dict[str, str]]:
        answer = json.loads(self("search", question, "--min-confidence", "0", "--json"))
        return [result["metadata"] for result in answer["results"]]

    def titles(self, question: str) -> list[str]:
        return [document["title"] for document in self.found(question)]


@pytest.fixture
def opx(node: LocalNode, names: Callable[[], str], tmp_path: Path) -> Commands:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "disk.md").write_text(DISK)
    (docs / "vault.md").write_text(VAULT)
    return Commands(tmp_path, f"{node.endpoint.replace('http:', 'opensearch:')}/{names()}")


def refreshed(client: OpenSearch, opx: Commands) -> None:
    """Refreshes the index, so that tests don't wait a second until writes are found."""
    client.indices.refresh(index=opx.index.rpartition("/")[2])


def test_documents_are_ingested_found_changed_and_deleted(opx: Commands, client: OpenSearch) -> None:
    assert "2 ingested" in opx("ingest", "docs")
    assert json.loads(opx("status", "--json"))["addresses"] == {"index": opx.index}
    assert opx.index in opx("status")
    refreshed(client, opx)
    assert opx.titles("the volume is full")[0] == "Disk full"
    assert not (opx.folder / "home" / "index").exists()
    assert (opx.folder / "home" / "opx.db").exists()
    (opx.folder / "docs" / "disk.md").write_text(DISK.replace("Disk full", "Volume full"))
    opx("ingest", "docs")
    refreshed(client, opx)
    assert opx.titles("the volume is full")[0] == "Volume full"
    opx("delete", opx.found("unseal the vault")[0]["documentId"], "--yes")
    refreshed(client, opx)
    assert opx.run("search", "unseal the vault").returncode == 1


def test_a_document_that_did_not_change_is_left_alone(opx: Commands) -> None:
    opx("ingest", "docs")
    assert "unchanged" in opx("ingest", "docs")


def test_a_bulk_job_loads_a_folder_and_answers_as_the_embedded_index_does(opx: Commands, client: OpenSearch) -> None:
    for number in range(120):
        text = f"# Queue {number}\n\nThe consumer of queue q{number} lags.\n\n## Fix\n\n1. Restart worker w{number}.\n"
        (opx.folder / "docs" / f"queue-{number}.md").write_text(text)
    assert "122 ingested, 0 unchanged" in opx("bulk", "start", "docs", "--yes")
    embedded = Commands(opx.folder / "embedded", "")
    embedded.folder.mkdir()
    assert "122 ingested" in embedded("bulk", "start", str(opx.folder / "docs"), "--yes")
    refreshed(client, opx)
    for question in ("the volume is full", "unseal the vault", "consumer of queue q17", "restart worker w99"):
        assert opx.titles(question)[0] == embedded.titles(question)[0]
    assert "0 ingested, 122 unchanged" in opx("bulk", "start", "--yes")
    assert "122 documents, 122 chunk files" in opx("bulk", "start", "--kind", "reconcile", "--yes")


def test_a_new_index_is_made_beside_the_one_that_answers(opx: Commands, client: OpenSearch) -> None:
    opx("ingest", "docs")
    refreshed(client, opx)
    opx("reindex")
    refreshed(client, opx)
    assert opx.titles("unseal the vault")[0] == "Vault sealed"
    names = [name for name in client.indices.get(index="*") if name.startswith(opx.index.rpartition("/")[2])]
    assert len(names) == 2


def test_a_node_that_is_away_is_named_and_nothing_is_lost(opx: Commands, client: OpenSearch) -> None:
    nowhere = Commands(opx.folder, "opensearch://127.0.0.1:9/none")
    done = nowhere.run("ingest", "docs")
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "none" in done.stderr
    opx("ingest", "docs")
    refreshed(client, opx)
    assert opx.titles("unseal the vault")[0] == "Vault sealed"


@pytest.mark.parametrize("filled_by", [("rebuild",), ("ingest", "docs")])
def test_a_folder_takes_a_node_for_its_index_and_goes_back(
    opx: Commands, client: OpenSearch, filled_by: tuple[str, ...]
) -> None:
    alone = Commands(opx.folder, "folder")
    alone("ingest", "docs")
    opx(*filled_by)
    refreshed(client, opx)
    assert opx.titles("the volume is full")[0] == "Disk full"
    (opx.folder / "docs" / "disk.md").write_text(DISK.replace("Disk full", "Volume full"))
    opx("ingest", "docs")
    refreshed(client, opx)
    assert opx.titles("the volume is full")[0] == "Volume full"
    assert alone.titles("unseal the vault")[0] == "Vault sealed"
    alone("rebuild")
    assert alone.titles("the volume is full")[0] == "Volume full"
