"""Both versions of the corpus keep the contract."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import pytest

from opx.adapters.aws.table import DynamoTable
from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.adapters.embedded.table import SqliteTable
from opx.errors import IndexUnavailableError
from opx.ingestion.corpus.version import SETTLING_SECONDS, CorpusCount, CountedIndex
from opx.ingestion.indexing.editions import IndexGeneration
from opx.ports import DocumentChange
from opx.ports.tables import DOCUMENTS
from tests.aws.tables import create_table
from tests.contract.corpus_version_contract import CorpusVersionContract
from tests.doubles.fake_time import FakeTime
from tests.doubles.one_call_at_a_time import OneCallAtATime
from tests.support.builders import VECTOR_DIMENSION, a_change, an_entry


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


class CountContract(CorpusVersionContract):
    """Fixture: `version`, over a table."""

    @pytest.fixture
    def index(self, embedded: EmbeddedIndex, version: CorpusCount) -> CountedIndex:
        return CountedIndex(embedded, version)

    def test_each_of_several_writers_is_counted(self, version: CorpusCount) -> None:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: version.advance(), range(20)))
        assert version.current().version == "20"

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
        assert version.current().version == "1"


class TestCountInSqlite(CountContract):
    @pytest.fixture
    def version(self, tmp_path: Path, time: FakeTime) -> Iterator[CorpusCount]:
        database = open_database(tmp_path / "opx.sqlite")
        yield CorpusCount(SqliteTable(DOCUMENTS, database, clock=time.clock), time.clock)
        database.close()


class TestCountInDynamo(CountContract):
    @pytest.fixture
    def version(self, aws: boto3.Session, time: FakeTime) -> CorpusCount:
        client: Any = OneCallAtATime(aws.client("dynamodb"))
        create_table(client, DOCUMENTS)
        return CorpusCount(DynamoTable(DOCUMENTS, client, clock=time.clock, sleep=time.sleep), time.clock)
