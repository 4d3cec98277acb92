"""What every `KnowledgeBase` does. Its caller is project `shop` of client `acme`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from opx.domain.documents import DocumentState, KnowledgeDocument
from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity
from opx.errors import DocumentNotFoundError, InvalidInputError, UnknownCategoryError
from opx.ingestion.files import FileToIngest
from opx.ingestion.outcomes import Outcome, Result
from opx.knowledge_base import KnowledgeBase, PutFile, every_document, every_failure, no_progress
from opx.services import Services
from opx.settings import Settings
from tests.unit.cli_support import word_services

CALLER = Identity("acme", "shop")
PREFIX = "clients/acme/projects/shop/documents/"
ANYTHING = QueryConfig(min_confidence=0)


class KnowledgeBaseContract:
    """Subclasses give the fixture `base`, a knowledge base over `services` for `CALLER`."""

    @pytest.fixture
    def services(self, tmp_path: Path) -> Services:
        return word_services(Settings(home=str(tmp_path / "home")))

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return tmp_path / "docs"

    # -- empty

    def test_what_is_empty_has_nothing(self, base: KnowledgeBase) -> None:
        assert base.documents().items == ()
        assert base.failures().items == ()
        assert list(base.stored_under("docs")) == []
        assert base.search("disk", ANYTHING).results == ()
        assert list(base.work([], no_progress)) == []

    def test_the_status_of_what_is_empty_is_zero(self, base: KnowledgeBase) -> None:
        status = base.status()
        assert (status.documents, status.chunks, status.failed, dict(status.categories)) == (0, 0, 0, {})
        assert (status.index, status.scope) == ("ok", "client:acme/project:shop")

    def test_the_status_tells_one_client_nothing_of_what_waits_for_all(self, base: KnowledgeBase) -> None:
        assert base.status().waiting is None

    # -- files in

    def test_a_file_is_put_and_then_taken_in(self, base: KnowledgeBase, folder: Path) -> None:
        (put,) = put_all(base, [a_file(folder, "a.md", "# Disk full\n\nDelete logs.\n")])
        assert put == PutFile(PREFIX + "docs/a.md")
        (outcome,) = base.work([put.object_key], no_progress)
        assert (outcome.result, outcome.object_key, outcome.chunks, outcome.title) == (
            Result.INGESTED,
            put.object_key,
            1,
            "Disk full",
        )
        (document,) = base.documents().items
        assert (document.document_id, document.title, document.source_uri) == (
            outcome.document_id,
            "Disk full",
            "docs/a.md",
        )

    def test_the_same_file_again_is_unchanged(self, base: KnowledgeBase, folder: Path) -> None:
        file = a_file(folder, "a.md", "# A\n\ntext\n")
        (outcome,) = taken_in(base, [file])
        (put,) = put_all(base, [file])
        assert put.outcome == Outcome(Result.UNCHANGED, put.object_key, document_id=outcome.document_id)

    def test_a_file_that_was_put_but_not_taken_in_is_not_unchanged(self, base: KnowledgeBase, folder: Path) -> None:
        file = a_file(folder, "a.md", "# A\n\ntext\n")
        put_all(base, [file])
        (put,) = put_all(base, [file])
        assert put.outcome is None

    def test_a_changed_file_becomes_a_new_version_and_the_old_one_stays_readable(
        self, base: KnowledgeBase, folder: Path
    ) -> None:
        (old,) = taken_in(base, [a_file(folder, "a.md", "# A\n\nold\n")])
        (new,) = taken_in(base, [a_file(folder, "a.md", "# A\n\nnew\n")])
        found = base.document(new.document_id)
        assert [(v.version, v.document_id) for v in found.versions] == [(2, new.document_id), (1, old.document_id)]
        assert base.document(old.document_id).document.state is DocumentState.SUPERSEDED
        assert "".join(chunk.content for chunk in base.chunks(old.document_id)) == "# A\n\nold\n"

    @pytest.mark.parametrize("changed", ['{"metadataAttributes": {"title": "Better"}}', None])
    def test_a_new_or_removed_sidecar_changes_its_document(
        self, base: KnowledgeBase, folder: Path, changed: str | None
    ) -> None:
        file = a_file(folder, "a.md", "# A\n\ntext\n")
        sidecar = folder / "a.md.metadata.json"
        if changed is None:
            sidecar.write_text('{"metadataAttributes": {"title": "Better"}}')
        taken_in(base, [file])
        if changed is None:
            sidecar.unlink()
        else:
            sidecar.write_text(changed)
        taken_in(base, [file])
        assert titles(base) == ["Better" if changed else "A"]

    def test_metadata_of_the_caller_are_kept(self, base: KnowledgeBase, folder: Path) -> None:
        taken_in(
            base, [a_file(folder, "ä b.md", "# A\n\ntext\n")], {"tags": ["größe", "a b"], "category": "postmortems"}
        )
        (document,) = base.documents().items
        assert (document.tags, document.category, document.source_uri) == (
            ("größe", "a b"),
            "postmortems",
            "docs/ä b.md",
        )

    def test_a_file_that_can_not_be_read_leaves_the_others_alone(self, base: KnowledgeBase, folder: Path) -> None:
        gone = FileToIngest(folder / "gone.md", "docs/gone.md")
        outcomes = taken_in(base, [gone, a_file(folder, "a.md", "# A\n\ntext\n")])
        failed = next(outcome for outcome in outcomes if outcome.result is Result.FAILED)
        assert f"can't read {folder / 'gone.md'}" in failed.reason
        assert titles(base) == ["A"]

    def test_a_name_that_no_object_can_have_leaves_the_others_alone(self, base: KnowledgeBase, folder: Path) -> None:
        named = FileToIngest(a_file(folder, "b.md", "# B\n\ntext\n").path, "docs/" + "x" * 1020 + ".md")
        outcomes = taken_in(base, [named, a_file(folder, "a.md", "# A\n\ntext\n")])
        assert [outcome.result for outcome in outcomes if outcome.result is Result.FAILED] == [Result.FAILED]
        assert titles(base) == ["A"]

    def test_an_empty_file_fails_with_its_reason(self, base: KnowledgeBase, folder: Path) -> None:
        (outcome,) = taken_in(base, [a_file(folder, "a.md", "")])
        assert outcome.result is Result.FAILED
        assert "the file is empty" in outcome.reason

    # -- objects

    def test_evidence_is_put_and_then_taken_in(self, base: KnowledgeBase) -> None:
        evidence = {"agent_type": "a", "outcome": "investigated", "task": "Why?", "conclusion": "A leak."}
        key = base.put_evidence({**evidence, "evidence_id": "run-1"})
        assert key == PREFIX + "evidence/agent_runs/evidence/run-1.json"
        (outcome,) = base.work([key], no_progress)
        assert base.document(outcome.document_id).document.title == "Why?"

    def test_evidence_without_what_it_needs_is_refused(self, base: KnowledgeBase) -> None:
        with pytest.raises(InvalidInputError, match="evidence has no outcome"):
            base.put_evidence({"agent_type": "a"})

    def test_objects_of_a_file_or_a_folder_are_listed_without_sidecars(self, base: KnowledgeBase, folder: Path) -> None:
        files = [a_file(folder, name, "# A\n\ntext\n") for name in ("a/1.md", "a/b/2.md", "ab.md", "a.md")]
        a_file(folder, "a/1.md.metadata.json", '{"metadataAttributes": {"title": "Better"}}')
        taken_in(base, files)
        assert list(base.stored_under("docs/a")) == [PREFIX + "docs/a/1.md", PREFIX + "docs/a/b/2.md"]
        assert list(base.stored_under("docs/a/1.md")) == [PREFIX + "docs/a/1.md"]

    def test_deleted_objects_leave_the_knowledge(self, base: KnowledgeBase, folder: Path) -> None:
        taken_in(base, [a_file(folder, name, f"# {name}\n\ntext\n") for name in ("a.md", "b.md")])
        base.delete_objects([PREFIX + "docs/a.md", PREFIX + "docs/never.md"])
        outcomes = {o.object_key: o.result for o in base.work([PREFIX + "docs/a.md"], no_progress)}
        assert outcomes[PREFIX + "docs/a.md"] is Result.DELETED
        assert titles(base) == ["b.md"]

    @pytest.mark.parametrize(
        "foreign", ["documents/x.md", "clients/acme/documents/x.md", "clients/acme/projects/shop/chunks/x"]
    )
    def test_objects_of_others_are_not_deleted_nor_any_with_them(
        self, base: KnowledgeBase, services: Services, folder: Path, foreign: str
    ) -> None:
        taken_in(base, [a_file(folder, "a.md", "# A\n\ntext\n")])
        services.store.put(foreign, b"text")
        with pytest.raises(InvalidInputError):
            base.delete_objects([PREFIX + "docs/a.md", foreign])
        assert services.store.head(foreign)
        assert services.store.head(PREFIX + "docs/a.md")

    def test_a_deleted_document_stays_readable(self, base: KnowledgeBase, folder: Path) -> None:
        (outcome,) = taken_in(base, [a_file(folder, "a.md", "# A\n\ntext\n")])
        (deleted,) = base.delete(outcome.document_id)
        assert [o.result for o in base.work([outcome.object_key], no_progress)] == [Result.DELETED]
        assert deleted.document_id == outcome.document_id
        assert base.document(outcome.document_id).document.state is DocumentState.DELETED
        assert base.documents().items == ()

    def test_deleting_what_is_not_there_is_an_error(self, base: KnowledgeBase) -> None:
        with pytest.raises(DocumentNotFoundError):
            base.delete("0" * 32)

    def test_a_document_that_is_only_seen_is_not_deleted(self, base: KnowledgeBase, services: Services) -> None:
        document_id = a_global_document(services)
        with pytest.raises(DocumentNotFoundError):
            base.delete(document_id)
        assert titles(base) == ["Global"]

    def test_deleting_twice_is_an_error(self, base: KnowledgeBase, folder: Path) -> None:
        (outcome,) = taken_in(base, [a_file(folder, "a.md", "# A\n\ntext\n")])
        base.delete(outcome.document_id)
        list(base.work([outcome.object_key], no_progress))
        with pytest.raises(DocumentNotFoundError):
            base.delete(outcome.document_id)

    def test_the_own_scope_is_where_documents_go(self, base: KnowledgeBase, folder: Path) -> None:
        (outcome,) = taken_in(base, [a_file(folder, "a.md", "# A\n\ntext\n")])
        assert base.own_scope() == base.document(outcome.document_id).document.key.scope.key == base.status().scope

    # -- documents

    def test_pages_hold_every_document_once_and_in_order(self, base: KnowledgeBase, folder: Path) -> None:
        taken_in(base, [a_file(folder, f"{n}.md", f"# {n}\n\ntext\n") for n in range(4)])
        taken_in(base, [a_file(folder, f"postmortems/{n}.md", f"# {n}\n\ntext\n") for n in range(3)])
        whole = base.documents().items
        assert len(whole) == 7
        paged: list[KnowledgeDocument] = []
        after = ""
        while True:
            page = base.documents(limit=2, after=after)
            paged += page.items
            after = page.next
            if not after:
                break
        assert tuple(paged) == whole
        assert [d.category for d in whole] == sorted(d.category for d in whole)

    def test_the_last_updated_comes_first(self, base: KnowledgeBase, folder: Path) -> None:
        for day in ("03", "05", "04"):
            taken_in(base, [a_file(folder, f"{day}.md", f"---\nupdated: 2025-01-{day}\n---\n# {day}\n\ntext\n")])
        assert titles(base) == ["05", "04", "03"]

    @pytest.mark.parametrize("limit", [0, 501])
    def test_a_page_has_1_to_500_documents(self, base: KnowledgeBase, limit: int) -> None:
        with pytest.raises(InvalidInputError):
            base.documents(limit=limit)

    @pytest.mark.parametrize("after", ["x", "e30", "W10"])
    def test_what_is_no_end_of_a_page_is_refused(self, base: KnowledgeBase, after: str) -> None:
        with pytest.raises(InvalidInputError, match="not the end of a page"):
            base.documents(after=after)

    def test_documents_are_listed_by_category(self, base: KnowledgeBase, folder: Path) -> None:
        taken_in(base, [a_file(folder, "a.md", "# A\n\ntext\n"), a_file(folder, "postmortems/b.md", "# B\n\ntext\n")])
        assert titles(base, category="runbooks") == ["A"]
        with pytest.raises(UnknownCategoryError, match="gossip"):
            base.documents(category="gossip")

    def test_old_versions_are_listed_when_asked_for(self, base: KnowledgeBase, folder: Path) -> None:
        for text in ("old", "new"):
            taken_in(base, [a_file(folder, "a.md", f"# A\n\n{text}\n")])
        assert len(base.documents().items) == 1
        assert sorted(d.version for d in base.documents(all_versions=True).items) == [1, 2]

    def test_the_beginning_of_an_id_is_enough_in_any_case(self, base: KnowledgeBase, folder: Path) -> None:
        (outcome,) = taken_in(base, [a_file(folder, "a.md", "# A\n\ntext\n")])
        assert base.document(outcome.document_id[:7].upper()).document.document_id == outcome.document_id

    def test_a_beginning_that_several_ids_share_is_refused(self, base: KnowledgeBase, folder: Path) -> None:
        outcomes = taken_in(base, [a_file(folder, f"{n}.md", f"# {n}\n\ntext\n") for n in range(17)])
        firsts = [outcome.document_id[0] for outcome in outcomes]
        shared = next(first for first in firsts if firsts.count(first) > 1)
        with pytest.raises(InvalidInputError, match="is the beginning of"):
            base.document(shared)

    @pytest.mark.parametrize("wanted", ["", "xyz", "a" * 33, "../status"])
    def test_what_is_no_id_is_refused(self, base: KnowledgeBase, wanted: str) -> None:
        with pytest.raises(InvalidInputError, match="is no document id"):
            base.document(wanted)

    @pytest.mark.parametrize("wanted", ["0", "0" * 32])
    def test_an_unknown_document_is_not_found(self, base: KnowledgeBase, wanted: str) -> None:
        with pytest.raises(DocumentNotFoundError):
            base.document(wanted)
        with pytest.raises(DocumentNotFoundError):
            list(base.chunks(wanted))

    def test_chunks_come_in_order_from_where_they_are_asked_for(self, base: KnowledgeBase, folder: Path) -> None:
        text = "# Long\n\n" + "".join(f"## Step {n}\n\n" + "Wait for the queue. " * 120 + "\n\n" for n in range(5))
        (outcome,) = taken_in(base, [a_file(folder, "long.md", text)])
        chunks = list(base.chunks(outcome.document_id))
        assert [chunk.chunk_index for chunk in chunks] == list(range(outcome.chunks))
        assert list(base.chunks(outcome.document_id, after=3)) == chunks[3:]
        assert list(base.chunks(outcome.document_id, after=outcome.chunks)) == []

    def test_only_what_the_caller_may_see_is_shown(self, base: KnowledgeBase, services: Services) -> None:
        foreign = services.manager_of(services.scope)
        services.store.put("clients/other/documents/a.md", b"# Foreign\n\ntext\n")
        list(foreign.work())
        (secret,) = services.catalog.in_category("runbooks/procedures")
        a_global_document(services)
        assert titles(base) == ["Global"]
        with pytest.raises(DocumentNotFoundError):
            base.document(secret.document_id)
        assert [r.title for r in base.search("foreign text", ANYTHING).results] == ["Global"]

    # -- questions

    def test_an_answer_is_that_of_the_system(self, base: KnowledgeBase, services: Services, folder: Path) -> None:
        taken_in(
            base,
            [
                a_file(folder, "a.md", "# Disk full\n\n## Fix\n\nDelete logs.\n"),
                a_file(folder, "b.md", "# B\n\ndisk\n"),
            ],
        )
        config = QueryConfig(min_confidence=0, categories=("runbooks",), tags=(), max_results=1)
        answer, expected = base.search("disk logs", config), services.query_service(CALLER).answer("disk logs", config)
        assert answer.results[0].metadata == expected.results[0].metadata
        of_each = {"timingsMs": {}, "receiptId": ""}
        assert {**answer.to_json(), **of_each} == {**expected.to_json(), **of_each}

    def test_a_receipt_is_given_where_it_is_asked_for(self, base: KnowledgeBase, folder: Path) -> None:
        taken_in(base, [a_file(folder, "a.md", "# Disk full\n\nDelete logs.\n")])
        answer = base.search("disk", QueryConfig(min_confidence=0), receipt=True)
        assert answer.receipt is not None
        assert answer.receipt["receiptId"] == answer.receipt_id

    def test_unanswered_questions_are_among_the_gaps(self, base: KnowledgeBase, folder: Path) -> None:
        taken_in(base, [a_file(folder, "a.md", "# Disk full\n\nDelete logs.\n")])
        base.search("brew espresso", QueryConfig())
        assert [gap.question for gap in base.gaps()] == ["brew espresso"]
        assert base.gaps(service="billing") == []
        assert base.gaps(owner="nobody")[0].count == 1

    def test_questions_are_in_the_audit_log(self, base: KnowledgeBase, folder: Path) -> None:
        taken_in(base, [a_file(folder, "a.md", "# Disk full\n\nDelete logs.\n")])
        answer = base.search("disk", QueryConfig(min_confidence=0), receipt=True)
        (document,) = {result.document_id for result in answer.results}
        (record,) = base.audit_records(document=document[:8])
        assert record.receipt_id == answer.receipt_id
        assert base.audit_records(since="2999") == []
        assert base.audit_records(who="nobody else") == []

    def test_what_came_nearest_is_told(self, base: KnowledgeBase, folder: Path) -> None:
        taken_in(base, [a_file(folder, "a.md", "# Disk full\n\nDelete logs.\n")])
        answer = base.search("disk", QueryConfig(min_confidence=1))
        assert answer.results == ()
        assert answer.best_rejected is not None
        assert answer.best_rejected.title == "Disk full"

    def test_a_question_about_an_unknown_category_is_refused(self, base: KnowledgeBase) -> None:
        with pytest.raises(UnknownCategoryError, match="gossip"):
            base.search("disk", QueryConfig(categories=("gossip",)))

    def test_the_categories_are_those_of_the_system(self, base: KnowledgeBase, services: Services) -> None:
        assert base.knowledge == services.knowledge

    def test_the_status_counts_what_is_seen(self, base: KnowledgeBase, services: Services, folder: Path) -> None:
        a_global_document(services)
        taken_in(base, [a_file(folder, "postmortems/a.md", "# A\n\ntext\n"), a_file(folder, "bad.md", "")])
        status = base.status()
        assert (status.documents, status.chunks, status.failed, status.embedding_model) == (2, 2, 1, "words/1")
        assert dict(status.categories) == {"postmortems": 1, "runbooks/procedures": 1}

    # -- failures

    def test_what_failed_is_listed_until_it_is_mended(
        self, base: KnowledgeBase, services: Services, folder: Path
    ) -> None:
        (outcome,) = taken_in(base, [a_file(folder, "bad.md", "")])
        (failure,) = base.failures().items
        assert (failure.object_key, failure.reason) == (outcome.object_key, outcome.reason)
        assert [again.result for again in retried(base, [failure.failure_id])] == [Result.FAILED]
        assert len(base.failures().items) == 1
        services.store.put(outcome.object_key, b"# Mended\n\ntext\n")
        assert Result.INGESTED in [again.result for again in retried(base, [failure.failure_id])]
        assert base.failures().items == ()

    def test_a_file_that_fails_again_fails_each_time(self, base: KnowledgeBase, folder: Path) -> None:
        file = a_file(folder, "bad.md", "")
        assert [taken_in(base, [file])[0].result for _ in range(2)] == [Result.FAILED, Result.FAILED]

    def test_retrying_what_did_not_fail_does_nothing(self, base: KnowledgeBase) -> None:
        assert base.retry(["0" * 32]) == ()
        assert base.retry([]) == ()

    def test_pages_hold_every_failure_once(self, base: KnowledgeBase, folder: Path) -> None:
        taken_in(base, [a_file(folder, f"{n}.md", "") for n in range(5)])
        first = base.failures(limit=3)
        second = base.failures(limit=3, after=first.next)
        assert [f.failure_id for f in (*first.items, *second.items)] == [f.failure_id for f in every_failure(base)]
        assert (len(first.items), len(second.items), second.next) == (3, 2, "")

    def test_failures_of_others_are_neither_listed_nor_retried(self, base: KnowledgeBase, services: Services) -> None:
        services.store.put("documents/bad.md", b"")
        list(services.manager.work())
        (failure,) = services.failures.items()
        assert base.failures().items == ()
        assert base.status().failed == 0
        assert base.retry([failure.failure_id]) == ()


def a_file(folder: Path, name: str, text: str) -> FileToIngest:
    """A file on disk, under the name that it has from the folder above."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return FileToIngest(path, f"docs/{name}")


def put_all(
    base: KnowledgeBase, files: Sequence[FileToIngest], metadata: dict[str, object] | None = None
) -> list[PutFile]:
    return list(base.put_files(files, metadata or {}))


def taken_in(
    base: KnowledgeBase, files: Sequence[FileToIngest], metadata: dict[str, object] | None = None
) -> list[Outcome]:
    """Outcomes that say how a document is now, one each."""
    done = put_all(base, files, metadata)
    sent = [put.object_key for put in done if put.outcome is None]
    worked = {outcome.object_key.removesuffix(".metadata.json"): outcome for outcome in base.work(sent, no_progress)}
    return [*(put.outcome for put in done if put.outcome), *worked.values()]


def retried(base: KnowledgeBase, failure_ids: Sequence[str]) -> list[Outcome]:
    return list(base.work(base.retry(failure_ids), no_progress))


def titles(base: KnowledgeBase, *, category: str = "") -> list[str]:
    return [document.title for document in every_document(base, category=category)]


def a_global_document(services: Services) -> str:
    """Its id."""
    services.store.put("documents/global.md", b"# Global\n\ntext\n")
    (outcome,) = services.manager.work()
    return outcome.document_id
