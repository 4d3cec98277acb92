"""A home folder and an archive that an earlier program wrote (`earlier/home-and-archive.tar.gz`) open as they are; of the
home only the index has to be made anew, as its texts were analysed in another way.

The program is that of commit 808b7f8, with an embedder that counts words. It ingested three documents, one of them changed
since, one of a client and one that expires; a failure and its solution were captured and became a pattern; an outcome, a
gap, a hold, an alias, a project's group and twenty values of a metric were recorded.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity, Scope
from opx.errors import IncompatibleIndexError
from opx.ingestion.events import Result
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from opx_assurance.capability import assurance
from opx_telemetry.capability import baselines
from tests.support.fakes import WordsEmbedder

EARLIER = Path(__file__).parent / "earlier" / "home-and-archive.tar.gz"
NOW = 1_790_000_000.0
"""When it was written."""

SHOP = Identity("acme", "shop")
ANYTHING = QueryConfig(min_confidence=0)


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    subprocess.run(["tar", "-xzf", str(EARLIER), "-C", str(tmp_path)], check=True)
    return tmp_path


def opened(home: Path) -> System:
    return bootstrap(Settings(home=str(home)), clock=lambda: NOW, embedder=WordsEmbedder())


def reindexed(system: System) -> None:
    reindexer = system.lifecycle.reindexer
    reindexer.start()
    while not reindexer.advance(lambda: False).finished:
        pass


@pytest.fixture(params=["home", "archive"])
def system(earlier: Path, request: pytest.FixtureRequest) -> Iterator[System]:
    """The home folder itself with a new index, or another one into which the archive was imported."""
    with opened(earlier / ("home" if request.param == "home" else "new")) as system:
        if request.param == "home":
            reindexed(system)
        else:
            assert system.part(assurance).importer().run(earlier / "archive.zip").notes == []
            list(system.manager.work())
        yield system


def test_the_index_of_the_home_is_refused_with_what_to_do(earlier: Path) -> None:
    with opened(earlier / "home") as system:
        for _ in range(2):
            with pytest.raises(IncompatibleIndexError, match="run `opx reindex`, which makes one for this program"):
                system.questions.for_reader(SHOP).search("disk full", ANYTHING)


def test_documents_are_found_with_their_facts(system: System) -> None:
    first = system.questions.for_reader(SHOP).search("disk full", ANYTHING).results[0]
    assert (first.title, first.metadata["tags"]) == ("Disk full", ["disk"])
    assert "then rotate the logs" in first.content
    assert "outcome" in first.metadata
    (vault,) = [one for one in system.corpus.catalog.in_category("runbooks/procedures") if one.title == "Vault sealed"]
    assert vault.scope == Scope("acme")


def test_versions_are_those_that_there_were(system: System) -> None:
    (disk,) = [one for one in system.corpus.catalog.in_category("runbooks/procedures") if one.title == "Disk full"]
    assert [one.version for one in system.corpus.catalog.versions(disk.key)] == [2, 1]
    assert (disk.severity, disk.services) == ("high", ("shop",))


def test_the_graph_has_its_edges_and_names(system: System) -> None:
    found = system.graph.seen_by().neighbours("service:store")
    assert "service:db" in str(found)


def test_patterns_are_found(system: System) -> None:
    patterns = system.pattern_queries.of(SHOP, operator=True).query_for_failure("The export ran out of memory")
    assert [one.problem for one in patterns] == ["The export ran out of memory"]


def test_records_are_there(system: System) -> None:
    assert [hold.reason for hold in system.lifecycle.holds.in_force()] == ["case 1"]
    assert system.corpus.projects.group_of("acme", "shop") == "shops"
    reader = system.corpus.projects.reader(Identity())
    assert system.part(baselines).get(reader, "web-01", "cpu", "7d").count == 20
    assert [gap.gap_id for gap in system.records.gaps.gaps("global")]


def announced_again(system: System) -> set[Result]:
    for key in [info.key for info in system.store.list("documents/")]:
        with system.store.open(key) as stream:
            data = stream.read()
        head = system.store.head(key)
        assert head is not None
        system.store.put(key, data, metadata=head.metadata)
    return {outcome.result for outcome in system.manager.work()}


def test_documents_are_ingested_once_more_and_stay_the_versions_that_they_are(earlier: Path) -> None:
    """Of an index that can't be read nobody knows whether it lacked some of them."""
    with opened(earlier / "home") as system:
        reindexed(system)
        documents = [one.document_id for one in system.corpus.catalog.in_category("runbooks/procedures")]
        assert announced_again(system) == {Result.INGESTED}
        assert announced_again(system) == {Result.UNCHANGED}
        assert [one.document_id for one in system.corpus.catalog.in_category("runbooks/procedures")] == documents
