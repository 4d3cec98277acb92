"""Operations on a system in this process and on one that is called over HTTP keep the same contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.domain.documents import DocumentState, KnowledgeDocument
from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.domain.scopes import Identity
from opx.errors import AccessDeniedError, DocumentNotFoundError, ForbiddenError, InvalidInputError, UnknownCategoryError
from opx.ingestion.events import EventOutcome, PutFile, Result
from opx.ingestion.files import FileToIngest
from opx.operations.corpus import ListFailures, list_failures
from opx.operations.documents import (
    GetDocument,
    ListCategories,
    ListDocuments,
    get_document,
    list_categories,
    list_documents,
)
from opx.operations.learning import put_evidence
from opx.operations.projects import GetProject, get_project
from opx.operations.questions import ListAuditRecords, ListGaps, list_audit_records, list_gaps
from opx.operations.system import System
from opx.settings import Settings
from tests.contract.caller_access import (
    CallerAccess,
    a_file,
    ask,
    assign,
    delete_all,
    deleted_by,
    documents,
    every_failure,
    failures,
    given,
    ingest_files,
    local_access,
    pieces,
    put_all,
    remote_access,
    retried,
    retried_keys,
    shown,
    status_of,
    stored_under,
    titles,
)
from tests.support.cli_support import word_services

CALLER = Identity("acme", "shop")
PREFIX = "clients/acme/projects/shop/documents/"
ANYTHING = QueryConfig(min_confidence=0)


class KnowledgeBaseContract:
    """Subclasses provide the fixtures `access` and `operator`: `CALLER`, and a caller without a client, of the system
    `services`."""

    @pytest.fixture
    def services(self, tmp_path: Path) -> System:
        return word_services(Settings(home=str(tmp_path / "home")))

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return tmp_path / "docs"

    # -- empty

    def test_empty_system_has_no_documents_failures_objects_or_results(self, access: CallerAccess) -> None:
        assert documents(access) == ()
        assert failures(access) == ()
        assert stored_under(access, "docs") == []
        assert ask(access, "disk", ANYTHING).results == ()
        assert access.work([]) == []

    def test_the_status_of_what_is_empty_is_zero(self, access: CallerAccess) -> None:
        status = status_of(access)
        assert (status.documents, status.chunks, status.failed, dict(status.categories)) == (0, 0, 0, {})
        assert (status.index, status.scope) == ("ok", "client:acme/project:shop")

    def test_the_status_hides_the_shared_queue_from_one_client(self, access: CallerAccess) -> None:
        status = status_of(access)
        assert (status.waiting, status.backlog) == (None, None)

    # -- files in

    def test_file_is_put_and_then_ingested(self, access: CallerAccess, folder: Path) -> None:
        (put,) = put_all(access, [a_file(folder, "a.md", "# Disk full\n\nDelete logs.\n")])
        assert put == PutFile(PREFIX + "docs/a.md")
        (outcome,) = access.work([PREFIX + "docs/a.md"])
        assert (outcome.result, outcome.object_key, outcome.chunks, outcome.title) == (
            Result.INGESTED,
            PREFIX + "docs/a.md",
            1,
            "Disk full",
        )
        (document,) = documents(access)
        assert (document.document_id, document.title, document.source_uri) == (
            outcome.document_id,
            "Disk full",
            "docs/a.md",
        )

    def test_the_same_file_again_is_unchanged(self, access: CallerAccess, folder: Path) -> None:
        file = a_file(folder, "a.md", "# A\n\ntext\n")
        (outcome,) = ingest_files(access, [file])
        key = outcome.object_key
        (put,) = put_all(access, [file])
        assert put == PutFile(key, EventOutcome(Result.UNCHANGED, key, document_id=outcome.document_id))

    def test_file_that_was_put_but_not_ingested_is_not_unchanged(self, access: CallerAccess, folder: Path) -> None:
        file = a_file(folder, "a.md", "# A\n\ntext\n")
        put_all(access, [file])
        (put,) = put_all(access, [file])
        assert put == PutFile(PREFIX + "docs/a.md")

    def test_a_changed_file_becomes_a_new_version_and_the_old_one_stays_readable(
        self, access: CallerAccess, folder: Path
    ) -> None:
        (old,) = ingest_files(access, [a_file(folder, "a.md", "# A\n\nold\n")])
        (new,) = ingest_files(access, [a_file(folder, "a.md", "# A\n\nnew\n")])
        found = shown(access, new.document_id)
        assert [(v.version, v.document_id) for v in found.versions] == [(2, new.document_id), (1, old.document_id)]
        assert shown(access, old.document_id).document.state is DocumentState.SUPERSEDED
        assert "".join(chunk.content for chunk in pieces(access, old.document_id)) == "# A\n\nold\n"

    @pytest.mark.parametrize("changed", ['{"metadataAttributes": {"title": "Better"}}', None])
    def test_a_new_or_removed_sidecar_changes_its_document(
        self, access: CallerAccess, folder: Path, changed: str | None
    ) -> None:
        file = a_file(folder, "a.md", "# A\n\ntext\n")
        sidecar = folder / "a.md.metadata.json"
        if changed is None:
            sidecar.write_text('{"metadataAttributes": {"title": "Better"}}')
        ingest_files(access, [file])
        if changed is None:
            sidecar.unlink()
        else:
            sidecar.write_text(changed)
        ingest_files(access, [file])
        assert titles(access) == ["Better" if changed else "A"]

    def test_metadata_of_the_caller_are_kept(self, access: CallerAccess, folder: Path) -> None:
        ingest_files(
            access, [a_file(folder, "ä b.md", "# A\n\ntext\n")], {"tags": ["größe", "a b"], "category": "postmortems"}
        )
        (document,) = documents(access)
        assert (document.tags, document.category, document.source_uri) == (
            ("größe", "a b"),
            "postmortems",
            "docs/ä b.md",
        )

    def test_a_file_that_can_not_be_read_leaves_the_others_alone(self, access: CallerAccess, folder: Path) -> None:
        gone = FileToIngest(folder / "gone.md", "docs/gone.md")
        outcomes = ingest_files(access, [gone, a_file(folder, "a.md", "# A\n\ntext\n")])
        failed = next(outcome for outcome in outcomes if outcome.result is Result.FAILED)
        assert f"can't read {folder / 'gone.md'}" in failed.reason
        assert titles(access) == ["A"]

    def test_a_name_that_no_object_can_have_leaves_the_others_alone(self, access: CallerAccess, folder: Path) -> None:
        named = FileToIngest(a_file(folder, "b.md", "# B\n\ntext\n").path, "docs/" + "x" * 1020 + ".md")
        outcomes = ingest_files(access, [named, a_file(folder, "a.md", "# A\n\ntext\n")])
        assert [outcome.result for outcome in outcomes if outcome.result is Result.FAILED] == [Result.FAILED]
        assert titles(access) == ["A"]

    def test_an_empty_file_fails_with_its_reason(self, access: CallerAccess, folder: Path) -> None:
        (outcome,) = ingest_files(access, [a_file(folder, "a.md", "")])
        assert outcome.result is Result.FAILED
        assert "the file is empty" in outcome.reason

    # -- objects

    def test_evidence_is_put_and_then_ingested(self, access: CallerAccess) -> None:
        evidence = {"agent_type": "a", "outcome": "investigated", "task": "Why is it slow?", "conclusion": ["A leak."]}
        key = given(access, put_evidence, **evidence, evidence_id="run-1").object_key
        assert key == PREFIX + "evidence/agent_runs/evidence/run-1.json"
        (outcome,) = access.work([key])
        assert shown(access, outcome.document_id).document.title == "Why is it slow?"

    def test_evidence_without_text_is_refused(self, access: CallerAccess) -> None:
        with pytest.raises(InvalidInputError, match="needs conclusions or observations"):
            given(access, put_evidence, agent_type="a")

    def test_objects_of_a_file_or_a_folder_are_listed_without_sidecars(
        self, access: CallerAccess, folder: Path
    ) -> None:
        files = [a_file(folder, name, "# A\n\ntext\n") for name in ("a/1.md", "a/b/2.md", "ab.md", "a.md")]
        a_file(folder, "a/1.md.metadata.json", '{"metadataAttributes": {"title": "Better"}}')
        ingest_files(access, files)
        assert stored_under(access, "docs/a") == [PREFIX + "docs/a/1.md", PREFIX + "docs/a/b/2.md"]
        assert stored_under(access, "docs/a/1.md") == [PREFIX + "docs/a/1.md"]

    def test_deleted_objects_leave_the_knowledge(self, access: CallerAccess, folder: Path) -> None:
        ingest_files(access, [a_file(folder, name, f"# {name}\n\ntext\n") for name in ("a.md", "b.md")])
        delete_all(access, [PREFIX + "docs/a.md", PREFIX + "docs/never.md"])
        outcomes = {o.object_key: o.result for o in access.work([PREFIX + "docs/a.md"])}
        assert outcomes[PREFIX + "docs/a.md"] is Result.DELETED
        assert titles(access) == ["b.md"]

    @pytest.mark.parametrize(
        "foreign", ["documents/x.md", "clients/acme/documents/x.md", "clients/acme/projects/shop/chunks/x"]
    )
    def test_objects_of_others_are_not_deleted_nor_any_with_them(
        self, access: CallerAccess, services: System, folder: Path, foreign: str
    ) -> None:
        ingest_files(access, [a_file(folder, "a.md", "# A\n\ntext\n")])
        services.store.put(foreign, b"text")
        with pytest.raises(InvalidInputError):
            delete_all(access, [PREFIX + "docs/a.md", foreign])
        assert services.store.head(foreign)
        assert services.store.head(PREFIX + "docs/a.md")

    def test_a_deleted_document_stays_readable(self, access: CallerAccess, folder: Path) -> None:
        (outcome,) = ingest_files(access, [a_file(folder, "a.md", "# A\n\ntext\n")])
        (deleted,) = deleted_by(access, outcome.document_id)
        assert [o.result for o in access.work([outcome.object_key])] == [Result.DELETED]
        assert deleted.document_id == outcome.document_id
        assert shown(access, outcome.document_id).document.state is DocumentState.DELETED
        assert documents(access) == ()

    def test_deleting_what_is_not_there_is_an_error(self, access: CallerAccess) -> None:
        with pytest.raises(DocumentNotFoundError):
            deleted_by(access, "0" * 32)

    def test_a_document_that_is_only_seen_is_not_deleted(self, access: CallerAccess, services: System) -> None:
        document_id = a_global_document(services)
        with pytest.raises(DocumentNotFoundError):
            deleted_by(access, document_id)
        assert titles(access) == ["Global"]

    def test_deleting_twice_deletes_nothing_the_second_time(self, access: CallerAccess, folder: Path) -> None:
        (outcome,) = ingest_files(access, [a_file(folder, "a.md", "# A\n\ntext\n")])
        assert len(deleted_by(access, outcome.document_id)) == 1
        access.work([outcome.object_key])
        assert deleted_by(access, outcome.document_id) == ()

    def test_the_own_scope_is_where_documents_go(self, access: CallerAccess, folder: Path) -> None:
        (outcome,) = ingest_files(access, [a_file(folder, "a.md", "# A\n\ntext\n")])
        assert shown(access, outcome.document_id).document.key.scope.key == status_of(access).scope

    # -- documents

    def test_pages_hold_every_document_once_and_in_order(self, access: CallerAccess, folder: Path) -> None:
        ingest_files(access, [a_file(folder, f"{n}.md", f"# {n}\n\ntext\n") for n in range(4)])
        ingest_files(access, [a_file(folder, f"postmortems/{n}.md", f"# {n}\n\ntext\n") for n in range(3)])
        whole = documents(access)
        assert len(whole) == 7
        paged: list[KnowledgeDocument] = []
        after = ""
        while True:
            page = access.call(list_documents, ListDocuments(limit=2, after=after))
            paged += page.documents
            after = page.next
            if not after:
                break
        assert tuple(paged) == whole
        assert [d.category for d in whole] == sorted(d.category for d in whole)

    def test_the_last_updated_comes_first(self, access: CallerAccess, folder: Path) -> None:
        for day in ("03", "05", "04"):
            ingest_files(access, [a_file(folder, f"{day}.md", f"---\nupdated: 2025-01-{day}\n---\n# {day}\n\ntext\n")])
        assert titles(access) == ["05", "04", "03"]

    @pytest.mark.parametrize("limit", [0, 501])
    def test_a_page_has_1_to_500_documents(self, access: CallerAccess, limit: int) -> None:
        with pytest.raises(InvalidInputError):
            documents(access, limit=limit)

    @pytest.mark.parametrize("after", ["x", "e30", "W10"])
    def test_malformed_page_token_is_refused(self, access: CallerAccess, after: str) -> None:
        with pytest.raises(InvalidInputError, match="not a page token"):
            documents(access, after=after)

    def test_documents_are_listed_by_category(self, access: CallerAccess, folder: Path) -> None:
        ingest_files(
            access, [a_file(folder, "a.md", "# A\n\ntext\n"), a_file(folder, "postmortems/b.md", "# B\n\ntext\n")]
        )
        assert titles(access, category="runbooks") == ["A"]
        with pytest.raises(UnknownCategoryError, match="gossip"):
            documents(access, category="gossip")

    def test_old_versions_are_listed_on_request(self, access: CallerAccess, folder: Path) -> None:
        for text in ("old", "new"):
            ingest_files(access, [a_file(folder, "a.md", f"# A\n\n{text}\n")])
        assert len(documents(access)) == 1
        assert sorted(d.version for d in documents(access, all_versions=True)) == [1, 2]

    def test_the_beginning_of_an_id_is_enough_in_any_case(self, access: CallerAccess, folder: Path) -> None:
        (outcome,) = ingest_files(access, [a_file(folder, "a.md", "# A\n\ntext\n")])
        assert shown(access, outcome.document_id[:7].upper()).document.document_id == outcome.document_id

    def test_a_beginning_that_several_ids_share_is_refused(self, access: CallerAccess, folder: Path) -> None:
        outcomes = ingest_files(access, [a_file(folder, f"{n}.md", f"# {n}\n\ntext\n") for n in range(17)])
        firsts = [outcome.document_id[0] for outcome in outcomes]
        shared = next(first for first in firsts if firsts.count(first) > 1)
        with pytest.raises(InvalidInputError, match="is the beginning of"):
            shown(access, shared)

    @pytest.mark.parametrize("wanted", ["", "xyz", "a" * 33, "../status"])
    def test_malformed_document_id_is_refused(self, access: CallerAccess, wanted: str) -> None:
        with pytest.raises(InvalidInputError, match="is not a document id"):
            shown(access, wanted)

    @pytest.mark.parametrize("wanted", ["0", "0" * 32])
    def test_an_unknown_document_is_not_found(self, access: CallerAccess, wanted: str) -> None:
        with pytest.raises(DocumentNotFoundError):
            shown(access, wanted)
        with pytest.raises(DocumentNotFoundError):
            pieces(access, wanted)

    def test_chunks_come_in_order_from_the_requested_position(self, access: CallerAccess, folder: Path) -> None:
        text = "# Long\n\n" + "".join(f"## Step {n}\n\n" + "Wait for the queue. " * 120 + "\n\n" for n in range(5))
        (outcome,) = ingest_files(access, [a_file(folder, "long.md", text)])
        chunks = pieces(access, outcome.document_id)
        assert [chunk.chunk_index for chunk in chunks] == list(range(outcome.chunks))
        assert pieces(access, outcome.document_id, after=3) == chunks[3:]
        assert pieces(access, outcome.document_id, after=outcome.chunks) == []

    def test_only_what_the_caller_may_see_is_shown(self, access: CallerAccess, services: System) -> None:
        foreign = services.ingestion.manager_of(services.installation.scope)
        services.store.put("clients/other/documents/a.md", b"# Foreign\n\ntext that is foreign\n")
        list(foreign.work())
        (secret,) = services.corpus.catalog.in_category("runbooks/procedures")
        a_global_document(services)
        assert titles(access) == ["Global"]
        with pytest.raises(DocumentNotFoundError):
            shown(access, secret.document_id)
        assert [r.title for r in ask(access, "Global text", ANYTHING).results] == ["Global"]
        assert {r.title for r in ask(access, "foreign text", ANYTHING).results} <= {"Global"}

    def test_versions_that_do_not_fit_into_one_reply_are_on_several_pages(
        self, access: CallerAccess, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for n in range(4):
            (outcome,) = ingest_files(access, [a_file(folder, "a.md", f"# A\n\nrevision {n}\n")])
        monkeypatch.setattr("opx.operations.paging.PAGE_BYTES", 1)
        found: list[KnowledgeDocument] = []
        after = 0
        while not found or after:
            page = access.call(get_document, GetDocument(document_id=outcome.document_id[:12], after=after))
            found += page.versions
            after = page.next
        assert [version.version for version in found] == [4, 3, 2, 1]

    # -- questions

    def test_an_answer_is_that_of_the_system(self, access: CallerAccess, services: System, folder: Path) -> None:
        ingest_files(
            access,
            [
                a_file(folder, "a.md", "# Disk full\n\n## Fix\n\nDelete logs.\n"),
                a_file(folder, "b.md", "# B\n\ndisk\n"),
            ],
        )
        config = QueryConfig(min_confidence=0, categories=("runbooks",), tags=(), max_results=1)
        answer, expected = (
            ask(access, "disk logs", config),
            services.questions.for_reader(CALLER).search("disk logs", config),
        )
        assert answer.results[0].metadata == expected.results[0].metadata
        assert [one.document_id for one in answer.documents] == [one.document_id for one in expected.results]
        of_each = {"timingsMs": {}, "receiptId": ""}
        assert {**replace(answer, documents=()).to_json(), **of_each} == {**expected.to_json(), **of_each}

    def test_a_receipt_is_returned_on_request(self, access: CallerAccess, folder: Path) -> None:
        ingest_files(access, [a_file(folder, "a.md", "# Disk full\n\nDelete logs.\n")])
        answer = ask(access, "disk", QueryConfig(min_confidence=0), receipt=True)
        assert answer.receipt is not None
        assert answer.receipt["receiptId"] == answer.receipt_id

    def test_unanswered_questions_are_among_the_gaps(self, access: CallerAccess, folder: Path) -> None:
        ingest_files(access, [a_file(folder, "a.md", "# Disk full\n\nDelete logs.\n")])
        ask(access, "brew espresso", QueryConfig())
        assert [gap.question for gap in access.call(list_gaps, ListGaps()).gaps] == ["brew espresso"]
        assert access.call(list_gaps, ListGaps(service="billing")).gaps == ()
        assert access.call(list_gaps, ListGaps(owner="nobody")).gaps[0].count == 1

    def test_questions_are_in_the_audit_log(self, access: CallerAccess, folder: Path) -> None:
        ingest_files(access, [a_file(folder, "a.md", "# Disk full\n\nDelete logs.\n")])
        answer = ask(access, "disk", QueryConfig(min_confidence=0), receipt=True)
        (document,) = {result.document_id for result in answer.results}
        (record,) = access.call(list_audit_records, ListAuditRecords(document_id=document[:8])).records
        assert record.receipt_id == answer.receipt_id
        assert access.call(list_audit_records, ListAuditRecords(since="2999")).records == ()
        assert access.call(list_audit_records, ListAuditRecords(who="nobody else")).records == ()

    def test_the_nearest_result_is_returned(self, access: CallerAccess, folder: Path) -> None:
        ingest_files(access, [a_file(folder, "a.md", "# Disk full\n\nDelete logs.\n")])
        answer = ask(access, "disk", QueryConfig(min_confidence=1))
        assert answer.results == ()
        assert answer.best_rejected is not None
        assert answer.best_rejected.title == "Disk full"

    def test_a_question_about_an_unknown_category_is_refused(self, access: CallerAccess) -> None:
        with pytest.raises(UnknownCategoryError, match="gossip"):
            ask(access, "disk", QueryConfig(categories=("gossip",)))

    def test_the_categories_are_those_of_the_system(self, access: CallerAccess, services: System) -> None:
        found, known = access.call(list_categories, ListCategories()), services.installation.knowledge
        assert {category.path: category for category in found.categories} == known.categories
        assert found.default_category == known.default_category

    def test_the_status_counts_what_is_seen(self, access: CallerAccess, services: System, folder: Path) -> None:
        a_global_document(services)
        ingest_files(access, [a_file(folder, "postmortems/a.md", "# A\n\ntext\n"), a_file(folder, "bad.md", "")])
        status = status_of(access)
        assert (status.documents, status.chunks, status.failed, status.embedding_model) == (2, 2, 1, "words/1")
        assert dict(status.categories) == {"postmortems": 1, "runbooks/procedures": 1}

    # -- failures

    def test_failed_document_is_listed_until_it_is_repaired(
        self, access: CallerAccess, services: System, folder: Path
    ) -> None:
        (outcome,) = ingest_files(access, [a_file(folder, "bad.md", "")])
        (failure,) = failures(access)
        assert (failure.object_key, failure.reason) == (outcome.object_key, outcome.reason)
        assert [again.result for again in retried(access, [failure.failure_id])] == [Result.FAILED]
        assert len(failures(access)) == 1
        services.store.put(outcome.object_key, b"# Mended\n\ntext\n")
        assert Result.INGESTED in [again.result for again in retried(access, [failure.failure_id])]
        assert failures(access) == ()

    def test_a_file_that_fails_again_fails_each_time(self, access: CallerAccess, folder: Path) -> None:
        file = a_file(folder, "bad.md", "")
        assert [ingest_files(access, [file])[0].result for _ in range(2)] == [Result.FAILED, Result.FAILED]

    def test_retrying_what_did_not_fail_does_nothing(self, access: CallerAccess) -> None:
        assert retried_keys(access, ["0" * 32]) == ()
        with pytest.raises(InvalidInputError, match="give either failureIds, or all as true"):
            retried_keys(access, [])

    def test_pages_hold_every_failure_once(self, access: CallerAccess, folder: Path) -> None:
        ingest_files(access, [a_file(folder, f"{n}.md", "") for n in range(5)])
        first = access.call(list_failures, ListFailures(limit=3))
        second = access.call(list_failures, ListFailures(limit=3, after=first.next))
        assert [f.failure_id for f in (*first.failures, *second.failures)] == [
            f.failure_id for f in every_failure(access)
        ]
        assert (len(first.failures), len(second.failures), second.next) == (3, 2, "")

    def test_failures_of_others_are_neither_listed_nor_retried(self, access: CallerAccess, services: System) -> None:
        services.store.put("documents/bad.md", b"")
        list(services.manager.work())
        (failure,) = services.corpus.failures.items()
        assert failures(access) == ()
        assert status_of(access).failed == 0
        assert retried_keys(access, [failure.failure_id]) == ()

    # -- projects

    def test_a_project_joins_and_leaves_a_group(self, operator: CallerAccess) -> None:
        assign(operator, "acme", "depot", "retail")
        found = operator.call(get_project, GetProject(client_id="acme", project_id="depot"))
        assert found.group_id == "retail"
        assert "client:acme/group:retail" in found.visible
        assign(operator, "acme", "depot", "")
        assert operator.call(get_project, GetProject(client_id="acme", project_id="depot")).group_id == ""

    @pytest.mark.parametrize("project", [CALLER.project_id, "depot"])
    def test_an_administrator_of_a_project_moves_no_project(self, access: CallerAccess, project: str) -> None:
        with pytest.raises(
            (ForbiddenError, AccessDeniedError), match="needs a token with the scope opx/admin and no pro"
        ):
            assign(access, CALLER.client_id, project, "retail")
        assert access.call(get_project, GetProject(client_id="acme", project_id=CALLER.project_id)).group_id == ""

    def test_an_administrator_of_a_project_sees_no_other_one(self, access: CallerAccess) -> None:
        with pytest.raises((ForbiddenError, AccessDeniedError), match="belongs to client:acme/project:depot"):
            access.call(get_project, GetProject(client_id="acme", project_id="depot"))

    @pytest.mark.parametrize(
        ("client", "project", "named"), [("ac*me", "shop", "ac\\*me"), ("acme", "a/b", "a/b"), ("", "shop", "client")]
    )
    def test_malformed_projects_are_refused(
        self, operator: CallerAccess, client: str, project: str, named: str
    ) -> None:
        with pytest.raises(InvalidInputError, match=named):
            operator.call(get_project, GetProject(client_id=client, project_id=project))
        with pytest.raises(InvalidInputError, match=named):
            assign(operator, client, project, "retail")

    def test_projects_of_another_client_are_refused(self, access: CallerAccess) -> None:
        with pytest.raises((ForbiddenError, AccessDeniedError), match="another client"):
            access.call(get_project, GetProject(client_id="rival", project_id="shop"))
        with pytest.raises((ForbiddenError, AccessDeniedError), match="no project"):
            assign(access, "rival", "shop", "retail")


def a_global_document(services: System) -> str:
    """Its id."""
    services.store.put("documents/global.md", b"# Global\n\ntext\n")
    (outcome,) = services.manager.work()
    return outcome.document_id


CLAIMS = {"opx_client_id": CALLER.client_id, "opx_project_id": CALLER.project_id, "scope": "opx/write opx/admin"}


class TestLocalKnowledgeBase(KnowledgeBaseContract):
    @pytest.fixture
    def access(self, services: System) -> Iterator[CallerAccess]:
        with services:
            yield local_access(services, CALLER)

    @pytest.fixture
    def operator(self, services: System) -> CallerAccess:
        return local_access(services, Identity())


class TestRemoteKnowledgeBase(KnowledgeBaseContract):
    @pytest.fixture
    def access(self, services: System) -> Iterator[CallerAccess]:
        with services, remote_access(services, CLAIMS) as access:
            yield access

    @pytest.fixture
    def operator(self, services: System) -> Iterator[CallerAccess]:
        with services, remote_access(services, {"scope": "opx/admin"}) as access:
            yield access
