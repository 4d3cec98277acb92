"""Both versions of the corpus keep the contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import boto3
import pytest

from opx.adapters.embedded.database import Database
from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.adapters.embedded.table import SqliteTable
from opx.errors import IndexUnavailableError
from opx.ingestion.corpus.version import _KEYS, SETTLING_SECONDS, CorpusCount, CountedIndex
from opx.ingestion.indexing.editions import IndexGeneration
from opx.ports import DocumentChange, SearchIndex, SearchRequest
from opx.ports.search import CorpusVersion
from opx.ports.tables import DOCUMENTS, SHARDS
from opx_aws.table import DynamoTable
from opx_testing.entries import EVERYONE, VECTOR_DIMENSION, a_change, a_removal, an_entry, any_vector
from opx_testing.fake_time import FakeTime
from tests.doubles.hooked_table import HookedTable, OneCallAtATime
from tests.support.dynamo_tables import create_table


def the(version: CorpusVersion) -> str:
    return version.current().version


class CorpusVersionContract:
    """Fixtures: `index`, an empty index, and `version`."""

    def test_there_is_one_before_the_first_document(self, index: SearchIndex, version: CorpusVersion) -> None:
        assert the(version) != ""

    def test_it_stays_while_nothing_changes(self, index: SearchIndex, version: CorpusVersion) -> None:
        index.apply([a_change(an_entry())])
        before = the(version)
        index.search(SearchRequest(EVERYONE, text="restart", vector=any_vector("q"), depth=5))
        index.count(EVERYONE)
        index.references("nothing")
        assert the(version) == before

    def test_adding_replacing_and_removing_each_give_another_one(
        self, index: SearchIndex, version: CorpusVersion
    ) -> None:
        seen = [the(version)]
        entry, other = an_entry("Restart it."), an_entry("Stop it.")
        (first,) = index.apply([a_change(entry)])
        seen.append(the(version))
        (second,) = index.apply([a_change(other, superseded=first)])
        seen.append(the(version))
        index.apply([a_removal(other, second)])
        seen.append(the(version))
        index.apply([a_change(entry)])  # the same as once before, and yet another state
        seen.append(the(version))
        assert len(set(seen)) == 5


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[EmbeddedIndex]:
    index = EmbeddedIndex(tmp_path / "index", model_id="m", dimension=VECTOR_DIMENSION)
    yield index
    index.close()


class TestIndexGeneration(CorpusVersionContract):
    @pytest.fixture
    def index(self, embedded: EmbeddedIndex) -> EmbeddedIndex:
        return embedded

    @pytest.fixture
    def version(self, embedded: EmbeddedIndex) -> IndexGeneration:
        return IndexGeneration(embedded)

    def test_another_process_reports_the_same(self, embedded: EmbeddedIndex, tmp_path: Path) -> None:
        other = EmbeddedIndex(tmp_path / "index", model_id="m", dimension=VECTOR_DIMENSION)
        embedded.apply([a_change(an_entry())])
        assert other.version == embedded.version
        other.close()

    def test_index_that_is_made_anew_has_other_ones(self, embedded: EmbeddedIndex, tmp_path: Path) -> None:
        other = EmbeddedIndex(tmp_path / "other", model_id="m", dimension=VECTOR_DIMENSION)
        assert other.version != embedded.version
        other.close()


def counted(version: CorpusCount) -> int:
    """The number of all changes."""
    return sum(map(int, version.current().version.split(".")))


def a_count(version: CorpusCount, shard: int) -> CorpusCount:
    """Another process that counts in this shard first."""
    return CorpusCount(version._table, version._clock, choose=lambda _: shard)


def interrupted(version: CorpusCount, hook: Callable[[], None]) -> CorpusCount:
    """The same, with a hook between its first read and its write."""
    hooked = HookedTable(version._table)
    hooked.arm(0, hook)
    return CorpusCount(hooked, version._clock, choose=version._choose)


def ends() -> None:
    raise InterruptedError


class CountContract(CorpusVersionContract):
    """Fixture: `version`, over a table."""

    @pytest.fixture
    def index(self, embedded: EmbeddedIndex, version: CorpusCount) -> CountedIndex:
        return CountedIndex(embedded, version)

    def test_each_of_several_writers_is_counted(self, version: CorpusCount) -> None:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: version.advance(), range(20)))
        assert counted(version) == 20

    def test_writer_that_ends_between_reading_and_writing_holds_nobody_up(self, version: CorpusCount) -> None:
        for shard in range(SHARDS):
            with pytest.raises(InterruptedError):
                interrupted(a_count(version, shard), ends).advance()
            a_count(version, shard).advance()
        assert counted(version) == SHARDS

    @pytest.mark.parametrize("shards", list(product(range(2), repeat=2)), ids=str)
    @pytest.mark.parametrize("began", [False, True])
    def test_two_writers_at_once_are_both_counted(
        self, version: CorpusCount, shards: tuple[int, int], began: bool
    ) -> None:
        """The second one counts between the first one's read and its write; the counters exist already if it `began`."""
        first, second = (a_count(version, shard) for shard in shards)
        for one in (first, second) if began else ():
            one.advance()
        before = version.current().version
        interrupted(first, second.advance).advance()
        assert counted(version) == (4 if began else 2)
        assert version.current().version != before

    def test_each_way_to_count_gives_another_version(self, version: CorpusCount) -> None:
        """Counters are not read at one moment: of two changes, a reader may see either one alone."""
        seen = [version.current().version]
        for shard in (0, 1, 0, 3, 2):
            a_count(version, shard).advance()
            seen.append(version.current().version)
        assert seen == ["0", "1", "1.1", "2.1", "2.1.0.1", "2.1.1.1"]

    def test_number_of_items_is_the_same_for_any_number_of_changes(self, version: CorpusCount) -> None:
        version.advance()
        first = len(version._table.get_many(_KEYS))
        for _ in range(9):
            version.advance()
        assert len(version._table.get_many(_KEYS)) == first == SHARDS

    def test_writer_that_ends_while_it_makes_the_counters_is_followed_by_another(self, version: CorpusCount) -> None:
        for made in range(SHARDS):
            hooked = HookedTable(version._table)
            hooked.arm(made, ends)
            with pytest.raises(InterruptedError):
                a_count(CorpusCount(hooked, version._clock), made).advance()
            assert version.current().version == "0"
        a_count(version, SHARDS - 1).advance()
        assert counted(version) == 1
        assert len(version._table.get_many(_KEYS)) == SHARDS

    def test_counter_of_an_earlier_release_goes_on(self, version: CorpusCount) -> None:
        version._table.put({"documentId": "#corpus", "entry": "version", "count": 20, "changedAt": 5})
        assert version.current().version == "20"
        a_count(version, 0).advance()
        assert version.current().version == "21"
        a_count(version, 2).advance()
        assert version.current().version == "21.0.1"

    def test_it_is_settled_when_every_search_finds_the_change(self, version: CorpusCount, time: FakeTime) -> None:
        assert version.current().settled
        version.advance()
        assert not version.current().settled
        time.sleep(SETTLING_SECONDS + 1)
        assert version.current().settled

    def test_batch_that_failed_is_counted_as_some_of_it_may_be_found(
        self, embedded: EmbeddedIndex, version: CorpusCount
    ) -> None:
        class Failing(EmbeddedIndex):
            def apply(self, changes: Iterable[DocumentChange]) -> list[list[str]]:
                raise IndexUnavailableError("half of it is in")

        embedded.__class__ = Failing
        with pytest.raises(IndexUnavailableError):
            CountedIndex(embedded, version).apply([])
        assert counted(version) == 1


class TestCountInSqlite(CountContract):
    @pytest.fixture
    def version(self, database: Database, time: FakeTime) -> CorpusCount:
        return CorpusCount(SqliteTable(DOCUMENTS, database, clock=time.clock), time.clock)


class TestCountInDynamo(CountContract):
    @pytest.fixture
    def version(self, aws: boto3.Session, time: FakeTime) -> CorpusCount:
        client: Any = OneCallAtATime(aws.client("dynamodb"))
        create_table(client, DOCUMENTS)
        return CorpusCount(DynamoTable(DOCUMENTS, client, clock=time.clock, sleep=time.sleep), time.clock)
