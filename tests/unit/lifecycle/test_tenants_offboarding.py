"""Offboarding removes everything of a client, despite interruptions, and nothing of other tenants."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from opx.domain.documents import DocumentKey
from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.domain.scopes import Identity, Scope
from opx.errors import ClientRemovedError, InvalidInputError, StoreUnavailableError
from opx.ingestion.corpus.clients import ClientState
from opx.ingestion.events import ObjectEvent, parse_event
from opx.lifecycle.report import RemovalReport, content_hash
from opx.operations.system import System
from opx.ports.holdings import CountedHolding, HeldItems
from opx.ports.tables import EMBEDDINGS, KEYS, PROJECTS
from opx_testing.fake_time import FakeTime
from tests.support.tenants_support import CLIENT, OTHER, PROCEDURES, fill, put_waiting, rows, services_at

UNUSED = {
    "sources and streams",  # those of an installation that is the client's own
    "references into the index",  # where the service makes ids
    "copies for a managed service, with versions",
    "files of bulk jobs",
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("filled")
    services = services_at(home)
    services.ingestion.manager_of(Scope()).ingest_document(
        "internal", PROCEDURES, "# Everybody's\n\nThe common heron.", {}
    )
    for step in (fill, put_waiting):
        for client in (CLIENT, OTHER):
            step(services, client)
    services.close()
    return home


@pytest.fixture
def services(filled: Path, tmp_path: Path) -> Iterator[System]:
    shutil.copytree(filled, tmp_path / "opx")
    services = services_at(tmp_path / "opx")
    yield services
    services.close()


@pytest.fixture(scope="module")
def removed(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[System, RemovalReport]]:
    """The system after the removal, with its report: for tests that only look."""
    home = tmp_path_factory.mktemp("removed") / "opx"
    shutil.copytree(filled, home)
    services = services_at(home)
    report = services.tenants.offboarding().remove(CLIENT, by="ann")
    yield services, report
    services.close()


def state_of(services: System) -> ClientState | None:
    client = services.corpus.clients.get(CLIENT)
    return client.state if client else None


def passages(services: System, identity: Identity, word: str) -> list[str]:
    """Passages with the word that this identity finds, at any confidence."""
    query = services.questions.for_reader(identity, recorded=False)
    found = query.query(word, QueryConfig(min_confidence=0.0))
    return [result.content for result in found if word in result.content]


def test_every_store_holds_something_of_a_client_before(services: System) -> None:
    empty = {name for name, count in services.tenants.offboarding().count(CLIENT).items() if not count}
    assert empty == UNUSED


def test_removal_leaves_nothing_in_any_store(removed: tuple[System, RemovalReport]) -> None:
    services, report = removed
    assert report.left == {}
    assert not any(services.tenants.offboarding().count(CLIENT).values())
    assert all(check.before for check in report.checks.values())


def test_report_has_what_was_removed_and_a_hash_over_itself(removed: tuple[System, RemovalReport]) -> None:
    services, report = removed
    with services.store.open(report.object_key) as stream:
        kept = json.load(stream)
    assert kept == json.loads(json.dumps(report.to_json()))
    assert kept["sha256"] == content_hash(kept)
    assert content_hash({**kept, "by": "eve"}) != kept["sha256"]
    assert kept["stores"]["document keys"] == {"before": 9, "removed": 9, "after": 0}
    assert (kept["clientId"], kept["by"]) == (CLIENT, "ann")


def test_vectors_of_texts_under_an_earlier_title_go_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    services = services_at(tmp_path)
    manager = services.ingestion.manager_of(Scope(CLIENT))
    with monkeypatch.context() as before:
        before.setattr("opx.ingestion.reading.completed", lambda title, _: title)
        manager.ingest_document("internal", PROCEDURES, "# README\n\nThe heron.", {"source": "cart/README"})
    services.store.announce_all()  # type: ignore[attr-defined]
    assert [outcome.title for outcome in manager.work()] == ["README (cart)"]
    assert services.tenants.offboarding().remove(CLIENT).left == {}
    assert not list(services.tables.every_item(EMBEDDINGS))
    services.close()


def test_removal_touches_no_row_or_file_of_anybody_else(
    filled: Path, removed: tuple[System, RemovalReport], tmp_path: Path
) -> None:
    shutil.copytree(filled, tmp_path / "opx")
    untouched = services_at(tmp_path / "opx")
    before, after = rows(untouched), rows(removed[0])
    inventory = untouched.tenants.offboarding().count(OTHER)
    own = {CLIENT, *(document.key.id for document in untouched.tenants.finder.find(CLIENT).documents)}
    untouched.close()
    gone = {row for row in before - after if row[0] != EMBEDDINGS.name}  # they have hashes alone
    assert [row for row in gone if OTHER in "".join(row) or not any(mark in "".join(row) for mark in own)] == []
    # What was cached of the text that both have is made again when it is needed.
    cached = {"cached vectors": inventory["cached vectors"] - 1, "cached contexts": inventory["cached contexts"] - 1}
    assert removed[0].tenants.offboarding().count(OTHER) == {**inventory, **cached}
    added = {name for name, _ in after - before}
    assert {name.partition("/")[0] for name in added} <= {PROJECTS.name, "offboarding"}


def test_nothing_of_the_client_is_in_any_row_or_file_but_that_it_was_removed(
    removed: tuple[System, RemovalReport],
) -> None:
    rest = {row for row in rows(removed[0]) if CLIENT in "".join(row).replace(OTHER, "")}
    assert {name.partition("/")[0] for name, _ in rest} == {PROJECTS.name, "offboarding"}


def test_its_words_are_in_no_file_of_the_databases(filled: Path, removed: tuple[System, RemovalReport]) -> None:
    home = removed[0].settings.home_path
    files = [path.read_bytes() for path in home.rglob("*.db*") if path.is_file()]
    assert len(files) >= 3
    theirs, others = packed_entries(filled, CLIENT), packed_entries(filled, OTHER)
    assert {any(entry in file for file in files) for entry in theirs - others} == {False}
    assert {any(entry in file for file in files) for entry in others} == {True}
    assert not [file for file in files if f"{CLIENT} zebrafish".encode() in file]


def packed_entries(home: Path, client: str) -> set[bytes]:
    """The entries of a client in the index, compressed as they are in the file."""
    with closing(sqlite3.connect(next(home.rglob("index.db")))) as database:
        statement = "SELECT chunk FROM entries JOIN segments ON segment = id WHERE scope = ? OR scope LIKE ?"
        return {row[0] for row in database.execute(statement, (f"client:{client}", f"client:{client}/%"))}


def test_others_still_find_what_is_theirs(removed: tuple[System, RemovalReport]) -> None:
    assert passages(removed[0], Identity(OTHER, "shop"), "zebrafish")
    assert passages(removed[0], Identity(OTHER), "egret")


class InterruptedHereError(Exception):
    """The process ends here."""


def interrupting(holding: CountedHolding, *, before: bool) -> CountedHolding:
    def remove(held: HeldItems) -> None:
        if not before:
            holding.remove(held)
        raise InterruptedHereError

    return CountedHolding(holding.name, holding.count, remove)


@pytest.mark.parametrize("before", [True, False])
def test_removal_that_is_interrupted_at_each_step_goes_on(services: System, before: bool) -> None:
    steps = len(services.tenants.offboarding().inventory.holdings)
    for step in range(steps):
        offboarding = services.tenants.offboarding()
        offboarding.inventory.holdings[step] = interrupting(offboarding.inventory.holdings[step], before=before)  # type: ignore[arg-type]
        with pytest.raises(InterruptedHereError):
            offboarding.remove(CLIENT)
        assert state_of(services) is ClientState.REMOVING
    report = services.tenants.offboarding().remove(CLIENT)
    assert report.left == {}
    assert {name for name, count in report.stores.items() if not count.before} == UNUSED
    rest = {row for row in rows(services) if CLIENT in "".join(row).replace(OTHER, "")}
    assert {name.partition("/")[0] for name, _ in rest} == {PROJECTS.name, "offboarding"}


def test_removal_that_is_interrupted_at_its_end_goes_on(services: System, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(services.tables, "scrub", lambda: (_ for _ in ()).throw(StoreUnavailableError("busy")))
        with pytest.raises(StoreUnavailableError):
            services.tenants.offboarding().remove(CLIENT)
    assert services.tenants.offboarding().remove(CLIENT).left == {}
    assert state_of(services) is ClientState.REMOVED


def test_remaining_items_are_named_and_the_removal_stays_open(services: System) -> None:
    offboarding = services.tenants.offboarding()
    place = next(n for n, holding in enumerate(offboarding.inventory.holdings) if holding.name == "gaps")
    gaps = offboarding.inventory.holdings[place]
    offboarding.inventory.holdings[place] = CountedHolding(gaps.name, gaps.count, lambda _: None)
    assert set(offboarding.remove(CLIENT).left) == {"gaps"}
    assert state_of(services) is ClientState.REMOVING
    assert services.tenants.offboarding().remove(CLIENT).left == {}


def test_entries_that_the_books_have_lost_are_found_in_the_index(services: System) -> None:
    """The proof doesn't rest on what the removal itself went by."""
    offboarding = services.tenants.offboarding()
    place = next(n for n, holding in enumerate(offboarding.inventory.holdings) if holding.name == "index entries")
    offboarding.inventory.holdings[place] = CountedHolding("index entries", lambda _: 0, lambda _: None)
    assert set(offboarding.remove(CLIENT).left) == {
        "passages found by its own words",
        "entries of its documents in the index",
    }


# -- afterwards


def test_removed_client_can_neither_ingest_nor_search(removed: tuple[System, RemovalReport]) -> None:
    services = removed[0]
    manager = services.ingestion.manager_of(Scope(CLIENT, project_id="shop"))
    with pytest.raises(ClientRemovedError, match="opx client add acme"):
        manager.put_document(PROCEDURES, "# New\n\nText.", {})
    with pytest.raises(ClientRemovedError):
        services.questions.for_reader(Identity(CLIENT, "shop"))
    assert not any(services.tenants.offboarding().count(CLIENT).values())


def test_event_that_arrives_after_the_removal_changes_nothing(services: System) -> None:
    services.tenants.offboarding().remove(CLIENT)
    list(services.manager.work())
    before = rows(services)
    for deleted in (False, True):
        key = f"clients/{CLIENT}/documents/{PROCEDURES}/late.md"
        services.queue.send(ObjectEvent(key, deleted, "F" * 20).to_json())
    assert [outcome.stale for outcome in services.manager.work()] == [True, True]
    assert rows(services) == before


def test_claim_that_is_made_while_the_client_goes_is_given_back(services: System) -> None:
    answers = iter([True, False])
    services.corpus.catalog.admits = lambda _: next(answers)
    key = DocumentKey(Scope(CLIENT), "documents/late.md")
    event = ObjectEvent(f"clients/{CLIENT}/documents/late.md", deleted=False, sequencer="1")
    with pytest.raises(Exception, match="late"):
        services.corpus.catalog.claim(key, event)
    assert services.tables.table(KEYS).get({"documentKey": key.id}) is None


def test_client_that_is_added_again_begins_with_nothing(services: System) -> None:
    services.tenants.offboarding().remove(CLIENT)
    services.corpus.clients.add(CLIENT, "ann")
    assert passages(services, Identity(CLIENT, "shop"), "zebrafish") == []
    manager = services.ingestion.manager_of(Scope(CLIENT))
    manager.ingest_document("internal", PROCEDURES, "# Again\n\nThe crane is back.", {})
    assert passages(services, Identity(CLIENT), "crane")


def test_client_may_not_be_added_while_it_is_removed(services: System) -> None:
    client = services.corpus.clients.add(CLIENT)
    services.corpus.clients.put(replace(client, state=ClientState.REMOVING, removal="acme-1"))
    with pytest.raises(InvalidInputError, match="let `opx client remove` finish"):
        services.corpus.clients.add(CLIENT)


def test_removal_waits_for_who_is_at_work(services: System, time: FakeTime) -> None:
    key = DocumentKey(Scope(CLIENT), f"documents/{PROCEDURES}/disk.md")
    item = services.tables.table(KEYS).get({"documentKey": key.id})
    services.tables.table(KEYS).put({**(item or {}), "leaseToken": "t", "leaseUntil": services.clock() + 8})
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            services.tables.table(KEYS).put({**(item or {}), "leaseToken": "", "leaseUntil": 0})

    assert services.tenants.offboarding(sleep=sleep).remove(CLIENT).left == {}
    assert waited == [0.0, 5.0, 5.0]


@pytest.mark.parametrize("client", ["*", "", "acme/projects/shop", "a%", "..", "a..b", "global", "асme", "_"])
def test_malformed_ids_are_refused_before_anything_is_looked_for(services: System, client: str) -> None:
    before = rows(services)
    with pytest.raises(InvalidInputError):
        services.tenants.offboarding().remove(client)
    assert rows(services) == before


def test_removing_a_client_that_never_was_is_refused(services: System) -> None:
    with pytest.raises(InvalidInputError, match="nothing is stored for a client nobody"):
        services.tenants.offboarding().remove("nobody")
    assert services.corpus.clients.get("nobody") is None


def test_sources_of_an_installation_that_is_the_clients_own_go(tmp_path: Path) -> None:
    services = services_at(tmp_path / "opx", client_id=CLIENT)
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("# Note\n\nThe egret.")
    services.manager.watch_directory(str(folder), "internal", PROCEDURES)
    list(services.manager.work())
    report = services.tenants.offboarding().remove(CLIENT)
    assert report.stores["sources and streams"].before == 3  # the source, its state and its document
    assert report.left == {}
    assert [one.source_id for one in services.connectors.sources.all() if one.source_id.startswith("watch-")] == []
    services.close()


def test_messages_about_others_stay(services: System) -> None:
    services.tenants.offboarding().remove(CLIENT)
    waiting: list[str] = []
    services.work.discard(lambda body: bool(waiting.append(parse_event(body).key)), dry=True)  # type: ignore[func-returns-value]
    assert waiting == [f"clients/{OTHER}/documents/{PROCEDURES}/waiting.md"]
