"""Stores that differ are found to, and are put right by taking documents in again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from opx.domain.documents import DocumentKey
from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.graph import manifest
from opx.ingestion.corpus.chunk_files import chunk_file, outline_file
from opx.ports import DocumentChange
from opx.ports.tables import CALENDAR, DOCUMENTS, GRAPH, KEYS
from opx_assurance.capability import assurance
from opx_assurance.consistency.differences import Problem, ReconcileReport
from opx_testing.entries import a_change, an_entry
from tests.e2e.systems import SystemUnderTest, a_sequencer, key_of

SHOP = "clients/acme/projects/shop/documents/operations/incidents/"
RUNBOOKS = "documents/runbooks/"


def put(system: SystemUnderTest, key: str, text: str = "") -> None:
    system.put(key, f"# {key}\n\nRestart what {key} says. {text}\n")


def reconciled(system: SystemUnderTest, **options: Any) -> ReconcileReport:
    """After whatever is young has become old, also by the clock of the double of S3."""
    system.time.sleep(max(3600.0, time.time() + 3600.0 - system.time.clock()))
    return system.services.part(assurance).reconciler().run(**options)


def found(report: ReconcileReport) -> set[tuple[str, str]]:
    return {(one.problem.value, one.object_key) for one in report.differences}


# -- ways in which stores come to differ


def lose_event(system: SystemUnderTest, key: str) -> None:
    system.put_silently(key, "# Silent\n\nNobody was told.\n")


def change_silently(system: SystemUnderTest, key: str) -> None:
    system.put_silently(key, "# Changed\n\nNobody was told of the change.\n")


def lose_object(system: SystemUnderTest, key: str) -> None:
    system.silent.delete(key)


def lose_entries(system: SystemUnderTest, key: str) -> None:
    index, key_id = system.services.index, key_of(key).id
    index.apply([DocumentChange(key_id, "", superseded=index.references(key_id))])


def add_old_entries(system: SystemUnderTest, key: str) -> None:
    one = an_entry("an old version", document_id="0" * 32, vector=system.services.indexing.embedder.embed_query("old"))
    owner = key_of(key)
    indexed = replace(one.indexed, key_id=owner.id, scope_key=owner.scope.key)
    system.services.index.apply([replace(a_change(replace(one, indexed=indexed)), key_id=owner.id)])


def lose_version(system: SystemUnderTest, key: str) -> None:
    document = system.document(key)
    entry = f"document#{document.key.id}#{document.version:08d}"
    system.services.tables.table(DOCUMENTS).delete({"documentId": document.document_id, "entry": entry})


def lose_chunk_file(system: SystemUnderTest, key: str) -> None:
    document = system.document(key)
    system.silent.delete(chunk_file(document.key, document.document_id))


def lose_statements(system: SystemUnderTest, key: str) -> None:
    owner = key_of(key)
    system.services.graph.store.remove(owner.id, owner.scope)


def add_old_statements(system: SystemUnderTest, key: str) -> None:
    table, owner = system.services.tables.table(GRAPH), key_of(key)
    page = manifest.read(table, owner.id).pages[0]
    table.put({**page, "entry": "f" * 32, "chunk": "f" * 32, "documentId": "0" * 32})


def lose_days(system: SystemUnderTest, key: str) -> None:
    table = system.services.tables.table(CALENDAR)
    for row in list(system.services.corpus.calendar.rows_of(key_of(key).scope.key)):
        if key_of(key).id in str(row["entry"]):
            table.delete({"place": row["place"], "entry": row["entry"]})


def interrupt(system: SystemUnderTest, key: str) -> None:
    system.services.corpus.catalog.claims.note_unfinished(key_of(key), "0" * 32)


BREAKS: dict[Problem, Callable[[SystemUnderTest, str], None]] = {
    Problem.NOT_TAKEN_IN: lose_event,
    Problem.CHANGED: change_silently,
    Problem.OBJECT_MISSING: lose_object,
    Problem.INDEX_DIFFERS: lose_entries,
    Problem.INDEX_HAS_OTHERS: add_old_entries,
    Problem.VERSION_MISSING: lose_version,
    Problem.CHUNKS_MISSING: lose_chunk_file,
    Problem.GRAPH_MISSING: lose_statements,
    Problem.GRAPH_HAS_OTHERS: add_old_statements,
    Problem.CALENDAR_MISSING: lose_days,
    Problem.INTERRUPTED: interrupt,
}


ON_AWS = (Problem.NOT_TAKEN_IN, Problem.OBJECT_MISSING, Problem.INDEX_DIFFERS, Problem.GRAPH_MISSING)
"""A double takes its time."""


def key_for(problem: Problem) -> str:
    return f"{SHOP}{problem.value}.md"


def test_stores_that_agree_have_no_differences(embedded: SystemUnderTest) -> None:
    put(embedded, f"{RUNBOOKS}a.md")
    put(embedded, f"{SHOP}b.md")
    embedded.work()
    put(embedded, f"{SHOP}b.md", "A second version.")
    put(embedded, f"{RUNBOOKS}gone.md")
    embedded.work()
    embedded.delete(f"{RUNBOOKS}gone.md")
    embedded.work()
    report = reconciled(embedded)
    assert found(report) == set()
    assert (report.objects, report.documents, report.index_documents, report.in_flight) == (2, 3, 2, 0)
    assert (report.chunk_files, report.outlines) == (4, 4)


def test_document_that_cannot_be_ingested_is_not_repaired(embedded: SystemUnderTest) -> None:
    embedded.put_silently(f"{RUNBOOKS}broken.md", "\0\0\0")
    lose_event(embedded, f"{RUNBOOKS}whole.md")
    report = reconciled(embedded, repair=True)
    assert (report.total, report.repaired) == (2, 1)


def test_every_difference_is_found_and_repaired(either: SystemUnderTest) -> None:
    breaks = BREAKS if either.search is None else {problem: BREAKS[problem] for problem in ON_AWS}
    for problem in breaks:
        if problem is not Problem.NOT_TAKEN_IN:
            put(either, key_for(problem))
    put(either, f"{SHOP}whole.md")
    either.work()
    put(either, f"{SHOP}whole.md", "A second version.")
    either.work()
    before = either.document(f"{SHOP}whole.md")
    for problem, come_apart in breaks.items():
        come_apart(either, key_for(problem))
    stray = an_entry("of nobody", source="nobody.md", scope=Scope("other"))
    either.services.index.apply(
        [a_change(replace(stray, vectors=[either.services.indexing.embedder.embed_query("x")]))]
    )
    unknown = chunk_file(DocumentKey(Scope("acme"), ""), "1" * 32)
    outline = outline_file(DocumentKey(Scope("acme"), ""), "1" * 32)
    for strange in (unknown, outline):
        either.silent.put(strange, b"{}\n")

    report = reconciled(either)
    assert not either.services.queue.waiting()
    expected = {(problem.value, key_for(problem)) for problem in breaks}
    expected |= {("index_unknown", ""), ("chunk_file_unknown", unknown), ("outline_unknown", outline)}
    extra = {  # the chunks of what was lost belong to no version any more
        (one.problem.value, one.object_key)
        for one in report.differences
        if one.problem in (Problem.CHUNK_FILE_UNKNOWN, Problem.OUTLINE_UNKNOWN)
    }
    assert found(report) == expected | extra
    repaired = either.services.part(assurance).reconciler().run(repair=True)
    either.work()
    assert repaired.held_back == 0
    assert found(reconciled(either)) == set()
    keys = [key_for(problem) for problem in breaks if problem is not Problem.OBJECT_MISSING]
    either.assert_consistent(*keys)
    assert either.document(key_for(Problem.OBJECT_MISSING)).state == "deleted"
    assert not any(map(either.silent.head, (unknown, outline)))
    assert either.document(f"{SHOP}whole.md") == before
    restored = either.document(key_for(Problem.INDEX_DIFFERS))
    assert (restored.version, restored.state) == (1, "current")


def test_nothing_is_removed_where_a_store_seems_to_be_lost(
    embedded: SystemUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opx_assurance.consistency.reconcile.AT_LEAST", 2)
    keys = [f"{RUNBOOKS}{number}.md" for number in range(5)]
    for key in keys:
        put(embedded, key)
    embedded.work()
    for key in keys[:4]:
        embedded.silent.delete(key)
    report = reconciled(embedded, repair=True)
    assert (report.counts[Problem.OBJECT_MISSING], report.held_back) == (4, 4)
    embedded.work()
    assert all(embedded.document(key).state == "current" for key in keys)
    assert reconciled(embedded, repair=True, max_share=1.0).held_back == 0
    embedded.work()
    assert [embedded.document(key).state.value for key in keys] == ["deleted"] * 4 + ["current"]


def test_leased_document_is_left_alone(embedded: SystemUnderTest) -> None:
    key = f"{RUNBOOKS}a.md"
    put(embedded, key)
    embedded.work()
    lose_entries(embedded, key)
    table, key_id = embedded.services.tables.table(KEYS), key_of(key).id
    head = table.get({"documentKey": key_id}) or {}
    table.put({**head, "leaseUntil": embedded.time.clock() + 1e9, "leaseToken": "somebody"})
    report = reconciled(embedded)
    assert (found(report), report.in_flight) == (set(), 2)  # seen from the corpus and from the catalog


def test_failed_items_are_counted_and_not_ingested_again(embedded: SystemUnderTest) -> None:
    embedded.put(f"{RUNBOOKS}a.pdf", b"%PDF-1.4 broken")
    embedded.work()
    report = reconciled(embedded)
    assert (found(report), report.failed) == (set(), 1)


@pytest.mark.parametrize("at", [1, 4])
def test_repair_that_is_interrupted_is_begun_again(
    embedded: SystemUnderTest, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    keys = [f"{RUNBOOKS}{number}.md" for number in range(4)]
    for key in keys:
        put(embedded, key)
    embedded.work()
    for key in keys:
        lose_entries(embedded, key)
    notes, note = [], embedded.services.corpus.catalog.claims.note_unfinished

    def mortal(key: DocumentKey, document_id: str) -> None:
        notes.append(key)
        if len(notes) == at:
            raise KeyboardInterrupt
        note(key, document_id)

    with monkeypatch.context() as patch:
        patch.setattr(embedded.services.corpus.catalog.claims, "note_unfinished", mortal)
        with pytest.raises(KeyboardInterrupt):
            reconciled(embedded, repair=True)
    reconciled(embedded, repair=True)
    embedded.work()
    assert found(reconciled(embedded)) == set()
    embedded.assert_consistent(*keys)


def test_thorough_comparison_finds_entries_of_other_chunks(embedded: SystemUnderTest) -> None:
    key = f"{RUNBOOKS}a.md"
    put(embedded, key)
    embedded.work()
    document = embedded.document(key)
    lose_entries(embedded, key)
    other = an_entry("cut otherwise", document_id=document.document_id)
    indexed = replace(other.indexed, key_id=document.key.id)
    entry = replace(other, indexed=indexed, vectors=[embedded.services.indexing.embedder.embed_query("x")])
    embedded.services.index.apply([DocumentChange(document.key.id, document.document_id, [entry])])
    assert found(reconciled(embedded)) == set()
    thorough = embedded.services.part(assurance).reconciler(thorough=True)
    assert found(thorough.run()) == {("index_differs", key)}
    thorough.run(repair=True)
    embedded.work()
    assert found(thorough.run()) == set()
    embedded.assert_consistent(key)


def test_sequencers_do_not_matter_to_what_is_announced(embedded: SystemUnderTest) -> None:
    """A document whose last event has a great number is done again, too."""
    key = f"{RUNBOOKS}a.md"
    put(embedded, key)
    embedded.work()
    table = embedded.services.tables.table(KEYS)
    head = table.get({"documentKey": key_of(key).id}) or {}
    table.put({**head, "sequencer": a_sequencer(2**80).rjust(40, "0")})
    lose_entries(embedded, key)
    reconciled(embedded, repair=True)
    embedded.work()
    embedded.assert_consistent(key)
