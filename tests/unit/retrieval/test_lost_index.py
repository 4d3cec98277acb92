"""An index that was lost isn't taken for a knowledge base without an answer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from opx.domain.scopes import Identity
from opx.errors import IndexUnavailableError
from opx.operations.context import Caller, Context
from opx.operations.corpus import GetStatus, get_status
from opx.operations.system import System
from opx.ports import DocumentChange
from tests.support.reindex_support import World, services_at


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with two documents, whose index is gone."""
    with services_at(tmp_path) as services:
        World(services).ingest(a="Alpha fails", b="Bravo fails")
    shutil.rmtree(tmp_path / "index")
    return tmp_path


def index_of(services: System) -> str:
    return get_status(Context(services, Caller(Identity())), GetStatus()).index


def test_a_question_to_a_lost_index_is_an_error_that_names_the_repair(home: Path) -> None:
    with services_at(home) as services, pytest.raises(IndexUnavailableError, match="`opx rebuild`"):
        services.questions.search().answer("alpha fails")


def test_no_gap_is_recorded_of_it(home: Path) -> None:
    with services_at(home) as services:
        with pytest.raises(IndexUnavailableError):
            services.questions.search().answer("alpha fails")
        assert services.records.gaps.scopes() == []


def test_the_status_reports_that_it_is_empty_until_it_was_rebuilt(home: Path) -> None:
    with services_at(home) as services:
        assert index_of(services).startswith("empty, although the catalog has 2 chunks: `opx rebuild`")
        World(services).ingest_again()
        assert index_of(services) == "ok"
        assert World(services).best("alpha fails") == "Alpha fails"


def test_the_status_reports_how_much_is_missing(tmp_path: Path) -> None:
    with services_at(tmp_path) as services:
        world = World(services)
        world.ingest(a="Alpha fails", b="Bravo fails")
        key = next(iter(services.corpus.catalog.in_category("runbooks/procedures"))).key.id
        services.index.apply([DocumentChange(key, "", superseded=services.index.references(key))])
        assert index_of(services) == "1 of the 2 chunks of the catalog: `opx reconcile` lists what is missing"


def test_a_knowledge_base_without_documents_has_no_answer(tmp_path: Path) -> None:
    with services_at(tmp_path) as services:
        assert services.questions.search().answer("alpha fails").results == ()
        assert index_of(services) == "ok"
