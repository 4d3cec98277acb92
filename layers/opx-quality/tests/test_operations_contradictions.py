"""Pairs of documents that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.domain.scopes import Identity
from opx.errors import DocumentNotFoundError, InvalidInputError
from opx.operations.context import Caller, Context
from opx.operations.system import System
from opx.ports.tables import GAPS
from opx.runtime.deadlines import limited
from opx_quality.contradictions import (
    Contradictions,
    DismissContradiction,
    ListContradictions,
    dismiss_contradiction,
    list_contradictions,
)
from tests.support.agent_calls import a_system

POOL = "# Ledger database{}\n\nThe connection pool timeout is {}.\n"
CORPUS = {
    "documents/runbooks/ledger.md": POOL.format("", "30 seconds"),
    "documents/runbooks/ledger-guide.md": POOL.format(" guide", "1 minute"),
    "documents/runbooks/ledger-copy.md": POOL.format(" overview", "60 s"),
    "documents/postmortems/ledger.md": POOL.format("", "5 seconds"),
    "clients/acme/documents/runbooks/ledger.md": POOL.format("", "90 seconds"),
    "clients/other/documents/runbooks/ledger.md": POOL.format("", "120 seconds"),
}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with a_system(tmp_path_factory.mktemp("home"), CORPUS) as found:
        yield found


def context(system: System, client: str = "", *scopes: str) -> Context:
    return Context(system, Caller(Identity(client), token_scopes=frozenset({"opx/read", *scopes})))


def listed(system: System, client: str = "", **request: object) -> Contradictions:
    return list_contradictions(context(system, client), ListContradictions(**request))  # type: ignore[arg-type]


def values(found: Contradictions) -> list[set[str]]:
    return [{side.statement.rpartition(" is ")[2] for side in (one.first, one.second)} for one in found.contradictions]


def test_documents_that_state_another_value_are_listed_with_both_passages(system: System) -> None:
    found = listed(system)
    assert sorted(map(sorted, values(found))) == [["1 minute.", "30 seconds."], ["30 seconds.", "60 s."]]
    one = found.contradictions[0]
    assert (one.kind, one.about, found.compared, found.more) == ("value", "time", 3, False)
    assert "The connection pool timeout is" in one.first.passage


def test_documents_of_other_clients_are_in_no_pair(system: System) -> None:
    found = listed(system, "acme")
    scopes = {side.scope for one in found.contradictions for side in (one.first, one.second)}
    assert (len(found.contradictions), scopes) == (5, {"global", "client:acme"})
    assert not any("120" in value for pair in values(found) for value in pair)


def test_a_record_of_the_past_is_compared_only_if_its_category_is_named(system: System) -> None:
    assert listed(system, category="postmortems").compared == 1
    assert not any("5 seconds." in value for pair in values(listed(system)) for value in pair)


def test_the_list_is_read_page_by_page(system: System) -> None:
    pages = [listed(system, limit=1)]
    while pages[-1].next:
        pages.append(listed(system, limit=1, after=pages[-1].next))
    whole = [one.contradiction_id for one in listed(system).contradictions]
    assert [one.contradiction_id for page in pages for one in page.contradictions] == whole


def test_reading_stops_before_the_time_of_a_request_is_over(system: System) -> None:
    with limited(lambda: 1.0):
        found = listed(system)
    assert (found.compared, found.contradictions, found.more) == (0, (), True)


# -- marks


def test_a_mark_hides_a_contradiction_until_a_document_changes(tmp_path: Path) -> None:
    with a_system(tmp_path, CORPUS) as system:
        first, second = listed(system).contradictions
        curator = context(system, "", "opx/curate")
        reply = dismiss_contradiction(curator, DismissContradiction(first.contradiction_id, "two databases"))
        assert reply.dismissed
        found = listed(system)
        assert [one.contradiction_id for one in found.contradictions] == [second.contradiction_id]
        assert found.dismissed == 1
        assert first.contradiction_id not in {one.contradiction_id for one in listed(system, "acme").contradictions}
        for key in (first.first.key, first.second.key):
            text = CORPUS[key] + "\nIt has three replicas, and a proxy.\n"
            system.store.put(key, text.encode())
        list(system.manager.work())
        assert len(listed(system).contradictions) == 2


def test_a_mark_of_a_client_is_its_own(tmp_path: Path) -> None:
    with a_system(tmp_path, CORPUS) as system:
        one = listed(system).contradictions[0]
        client = context(system, "acme", "opx/curate")
        dismiss_contradiction(client, DismissContradiction(one.contradiction_id))
        assert len(listed(system).contradictions) == 2
        assert len(listed(system, "acme").contradictions) == 4
        dismiss_contradiction(client, DismissContradiction(one.contradiction_id, undo=True))
        assert len(listed(system, "acme").contradictions) == 5


def test_a_mark_on_what_another_client_has_is_refused(system: System) -> None:
    theirs = listed(system, "acme").contradictions
    own = next(one for one in theirs if "client:acme" in (one.first.scope, one.second.scope))
    request = DismissContradiction(own.contradiction_id)
    with pytest.raises(DocumentNotFoundError):
        dismiss_contradiction(context(system, "other", "opx/curate"), request)


def test_what_is_no_contradiction_is_not_marked(system: System) -> None:
    curator = context(system, "", "opx/curate")
    known = listed(system).contradictions[0].contradiction_id
    with pytest.raises(InvalidInputError, match="don't contradict"):
        dismiss_contradiction(curator, DismissContradiction(f"{known[:-8]}00000000"))
    with pytest.raises(InvalidInputError, match="not the id"):
        dismiss_contradiction(curator, DismissContradiction("nothing"))


def test_marks_of_a_removed_client_are_removed(tmp_path: Path) -> None:
    with a_system(tmp_path, CORPUS) as system:
        one = listed(system).contradictions[0]
        dismiss_contradiction(context(system, "acme", "opx/curate"), DismissContradiction(one.contradiction_id))
        system.tenants.administration().remove("acme")
        assert not list(system.tables.table(GAPS).query("#dismissed client:acme"))
