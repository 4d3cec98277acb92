"""Operations of retention, projects and administration, called directly."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from opx.domain.policy import Action
from opx.domain.requests import RequestError, read_request
from opx.domain.scopes import Identity, Scope
from opx.edges.calling import LocalClient
from opx.errors import (
    DocumentNotFoundError,
    ForbiddenError,
    HoldNotFoundError,
    InvalidInputError,
    InvalidScopeError,
    UnknownCategoryError,
)
from opx.ingestion.corpus.clients import Client, ClientState
from opx.ingestion.indexing.book import Edition, EditionState
from opx.lifecycle.reindex.job import ReindexJob, ReindexPhase
from opx.lifecycle.report import PruneReport
from opx.operations.administration import (
    AddClient,
    GetClient,
    GetIndexStatus,
    ListClients,
    Rebuild,
    Reindex,
    RemoveClient,
    SwitchIndex,
    add_client,
    discard_indexes,
    force_reindex,
    get_client,
    get_index_status,
    list_clients,
    rebuild,
    reindex,
    remove_client,
    roll_back_reindex,
)
from opx.operations.context import Caller, Context
from opx.operations.lifecycle import (
    AddHold,
    LiftHold,
    ListHolds,
    ListPrunings,
    ListReviews,
    PruneExpired,
    add_hold,
    lift_hold,
    list_holds,
    list_prunings,
    list_reviews,
    prune_expired,
)
from opx.operations.projects import (
    AssignProject,
    GetProject,
    ListProjects,
    RemoveProject,
    assign_project,
    get_project,
    list_projects,
    preview_project_move,
    remove_project,
)
from opx.operations.registry import Operation
from opx.operations.system import System
from opx.ports.tables import LIFECYCLE, PROJECTS
from opx_assurance.archive.report import Fate
from opx_assurance.operations import ExportArchive, ImportArchive, Reconcile, export_archive, import_archive, reconcile
from tests.support.archive_support import put
from tests.support.reindex_support import services_at

OF_SHOP = "client:acme/project:shop"
SHOP = {"client_id": "acme", "project_id": "shop"}


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    with services_at(tmp_path / "home") as services:
        put(services, "disk", "It is full.", owner="storage", review_by="2020-01-01")
        put(services, "old", "The heron.", Scope("acme"), expires="2020-01-01")
        put(services, "cart", "The egret.", Scope("acme", project_id="shop"))
        yield services


def context_of(system: System, client: str = "", project: str = "", steps: list[str] | None = None) -> Context:
    seen: list[str] = [] if steps is None else steps
    caller = Caller(Identity(client, project, "ada"), owns_system=not client)
    return Context(system, caller, progress=lambda step, _: seen.append(step))


class TestHolds:
    def test_are_put_in_force_listed_and_lifted(self, system: System) -> None:
        owner = context_of(system)
        hold = add_hold(owner, AddHold(reason=" case  7", within="client:acme", category="runbooks"))
        assert (hold.reason, hold.by, hold.what) == ("case 7", "ada", "category runbooks of client:acme")
        assert list_holds(owner, ListHolds()).holds == (hold,)
        lifted = lift_hold(owner, LiftHold(hold_id=hold.id))
        assert (lifted.id, lifted.lifted_by) == (hold.id, "ada")
        assert list_holds(owner, ListHolds()).holds == ()
        assert list_holds(owner, ListHolds(lifted=True)).holds == (lifted,)

    def test_a_caller_with_a_client_has_its_own_alone(self, system: System) -> None:
        everybodys = add_hold(context_of(system), AddHold(reason="case", everything=True))
        own = add_hold(context_of(system, "acme", "shop"), AddHold(reason="case", everything=True))
        assert (own.within, everybodys.within) == (OF_SHOP, "")
        assert list_holds(context_of(system, "acme"), ListHolds()).holds == (own,)
        assert list_holds(context_of(system, "other"), ListHolds()).holds == ()
        with pytest.raises(HoldNotFoundError, match=everybodys.id):
            lift_hold(context_of(system, "acme"), LiftHold(hold_id=everybodys.id))
        with pytest.raises(ForbiddenError, match="client:acme is not within client:acme/project:shop"):
            add_hold(context_of(system, "acme", "shop"), AddHold(reason="case", within="client:acme"))

    def test_everybodys_document_is_not_a_clients_to_hold(self, system: System) -> None:
        document = next(one for one in system.corpus.catalog.in_category("runbooks/procedures") if one.scope == Scope())
        with pytest.raises(ForbiddenError, match="global is not within client:acme"):
            add_hold(context_of(system, "acme"), AddHold(reason="case", document=document.document_id))

    def test_an_expired_document_can_be_held_and_one_of_others_not_be_found(self, system: System) -> None:
        old = next(one for one in system.corpus.catalog.in_category("runbooks/procedures") if one.expires)
        with pytest.raises(DocumentNotFoundError):
            add_hold(context_of(system, "other"), AddHold(reason="case", document=old.document_id))
        held = add_hold(context_of(system, "acme"), AddHold(reason="case", document=old.document_id.upper()))
        assert (held.source, held.within) == (old.source, "client:acme")

    @pytest.mark.parametrize(
        ("parts", "error"),
        [
            ({}, InvalidInputError),
            ({"everything": True, "category": "runbooks"}, InvalidInputError),
            ({"document": "ab12", "within": "global"}, InvalidInputError),
            ({"within": "acme"}, InvalidScopeError),
            ({"category": "nonsense"}, UnknownCategoryError),
        ],
    )
    def test_on_nothing_or_on_what_is_unknown_are_refused(
        self, system: System, parts: dict[str, Any], error: type[Exception]
    ) -> None:
        with pytest.raises(error):
            add_hold(context_of(system), AddHold(reason="case", **parts))
        assert list_holds(context_of(system), ListHolds()).holds == ()

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({}, "reason is missing: The reason"),
            ({"reason": " "}, "reason must have at least 1 characters that are not blank"),
            ({"reason": "x" * 1001}, "reason may have at most 1,000 characters"),
            ({"reason": "case", "document": ""}, "document must have at least 1"),
        ],
    )
    def test_malformed_requests_are_refused(self, given: dict[str, object], message: str) -> None:
        with pytest.raises(RequestError, match=message):
            read_request(AddHold, given)


class TestRetention:
    def test_reviews_are_those_of_the_callers_scopes(self, system: System) -> None:
        report = list_reviews(context_of(system, "acme"), ListReviews(days=0))
        assert [(item.title, item.owner) for item in report.items] == [("disk", "storage")]
        assert [(one.owner, one.overdue, one.items) for one in report.owners] == [("storage", 1, 1)]
        assert list_reviews(context_of(system), ListReviews(owner="nobody")).items == ()

    def test_expired_versions_are_pruned_and_reported_to_callers_without_a_client(self, system: System) -> None:
        owner = context_of(system)
        assert prune_expired(owner, PruneExpired(dry_run=True)).removed == {"runbooks/procedures": 1}
        assert list_prunings(owner, ListPrunings()).prunings == ()
        report = prune_expired(owner, PruneExpired())
        assert (report.versions, report.dry_run) == (1, False)
        assert list_prunings(owner, ListPrunings()).prunings == (report,)
        with pytest.raises(ForbiddenError, match="counts of all clients"):
            LocalClient(context_of(system, "acme")).call(list_prunings, ListPrunings())

    def test_a_share_of_nothing_is_refused(self, system: System) -> None:
        with pytest.raises(InvalidInputError, match="must be a number above 0 and at most 1"):
            prune_expired(context_of(system), PruneExpired(allow_share=0))


class TestProjects:
    def test_are_put_into_groups_and_taken_out(self, system: System) -> None:
        owner = context_of(system)
        assign_project(owner, AssignProject(client_id="acme", project_id="mail", group_id="office"))
        move = AssignProject(**SHOP, group_id="office")
        changes = preview_project_move(owner, move).changes
        assert [(one.project_id, one.lost) for one in changes] == [("mail", ()), ("shop", ())]
        assert get_project(owner, GetProject(**SHOP)).group_id == ""
        assert assign_project(owner, move).group_id == "office"
        assert "client:acme/project:mail" in get_project(owner, GetProject(**SHOP)).visible
        listed = list_projects(owner, ListProjects(client_id="acme", group_id="office")).projects
        assert [one.project_id for one in listed] == ["mail", "shop"]
        assert [one.project_id for one in remove_project(owner, RemoveProject(**SHOP)).changes] == ["mail", "shop"]
        assert [one.project_id for one in list_projects(owner, ListProjects(client_id="acme")).projects] == ["mail"]

    def test_of_another_client_are_not_the_callers(self, system: System) -> None:
        caller, move = LocalClient(context_of(system, "other")), AssignProject(**SHOP, group_id="office")
        calls: tuple[Callable[[], object], ...] = (
            lambda: caller.call(get_project, GetProject(**SHOP)),
            lambda: caller.call(assign_project, move),
            lambda: caller.call(preview_project_move, move),
            lambda: caller.call(list_projects, ListProjects(client_id="acme")),
            lambda: caller.call(remove_project, RemoveProject(**SHOP)),
        )
        for call in calls:
            with pytest.raises(ForbiddenError, match="another client"):
                call()
        assert get_project(context_of(system, "acme"), GetProject(**SHOP)).group_id == ""

    def test_without_an_id_are_refused(self, system: System) -> None:
        with pytest.raises(InvalidScopeError, match="needs its client id"):
            list_projects(context_of(system), ListProjects(client_id=""))


class TestClients:
    def test_are_listed_counted_removed_and_served_again(self, system: System) -> None:
        steps: list[str] = []
        owner = context_of(system, steps=steps)
        (listed,) = list_clients(owner, ListClients()).clients
        assert (listed.client_id, listed.state, listed.documents, listed.projects) == ("acme", "active", 2, 1)
        stores = get_client(owner, GetClient(client_id="acme")).stores
        report = remove_client(owner, RemoveClient(client_id="acme"))
        assert report.left == {}
        assert {name: count.before for name, count in report.stores.items()} == stores
        assert (report.by, steps[0]) == ("ada", "waiting for running work")
        assert get_client(owner, GetClient(client_id="acme")).state is ClientState.REMOVED
        assert add_client(owner, AddClient(client_id="acme")).state is ClientState.ACTIVE

    def test_an_unknown_one_is_noted_nowhere(self, system: System) -> None:
        found = get_client(context_of(system), GetClient(client_id="new"))
        assert (found.state, found.since, any(found.stores.values())) == ("active", "", False)


class TestStores:
    def test_an_archive_is_written_and_put_back(self, system: System, tmp_path: Path) -> None:
        steps: list[str] = []
        path = str(tmp_path / "all.opx")
        written = export_archive(context_of(system, steps=steps), ExportArchive(path=path))
        assert (written.counts["documents"], "documents" in steps) == (3, True)
        with services_at(tmp_path / "other") as other:
            foreseen = import_archive(context_of(other), ImportArchive(path=path, dry_run=True))
            assert (foreseen.documents, foreseen.archive.backend) == ({Fate.RESTORED: 3}, "embedded")
            report = import_archive(context_of(other), ImportArchive(path=path))
            assert (report.contents, report.failed) == (foreseen.contents, 0)
            again = import_archive(context_of(other), ImportArchive(path=path, merge=True))
            assert json.loads(msgspec.json.encode(again))["documents"] == {"same as what is here": 3}
            assert reconcile(context_of(other), Reconcile(thorough=True)).differences == []

    def test_differences_are_found_and_repaired(self, system: System) -> None:
        lost = next(info.key for info in system.store.list("chunks/"))
        system.store.delete(lost)
        found = reconcile(context_of(system), Reconcile())
        assert [(one.problem, one.scope_key) for one in found.differences] == [("chunks_missing", "global")]
        assert (found.total, found.repaired) == (1, 0)
        assert reconcile(context_of(system), Reconcile(repair=True)).repaired == 1
        assert reconcile(context_of(system), Reconcile()).total == 0

    def test_a_rebuild_of_the_graph_has_every_document_ingested(self, system: System) -> None:
        system.close()
        with services_at(system.settings.home_path) as started:
            keys = rebuild(context_of(started), Rebuild(graph=True)).object_keys
            assert len(keys) == started.queue.waiting() == 3
            results = sorted(outcome.result for outcome in started.manager.work())
            assert results == ["ingested", "ingested", "skipped"]  # one is past its retention


class TestReindex:
    def test_a_new_index_answers_and_the_old_one_can_be_gone_back_to(self, system: System) -> None:
        steps: list[str] = []
        owner = context_of(system, steps=steps)
        job = reindex(owner, Reindex(model="32"))
        assert (job.phase, job.documents, job.rollback) == (ReindexPhase.DONE, 3, False)
        assert steps[0] == "a new index for words-32/1"
        assert any(step.startswith("done:") for step in steps)
        status = get_index_status(owner, GetIndexStatus())
        assert {one.state: one.embedding_model for one in status.indexes}[EditionState.ACTIVE] == "words-32/1"
        assert (status.target, status.job) == (None, job)
        assert roll_back_reindex(owner, SwitchIndex()).rollback
        assert [one.embedding_model for one in discard_indexes(owner, SwitchIndex()).indexes] == ["words-32/1"]
        assert discard_indexes(owner, SwitchIndex()).indexes == ()

    def test_a_worse_one_is_refused_until_it_is_forced(self, system: System) -> None:
        owner = context_of(system)
        for word in ("ash", "bay", "cat", "dew", "elm", "fig", "gum", "hay", "ivy", "jar", "kit", "log"):
            put(system, word, f"Alarm {word}")
        refused = reindex(owner, Reindex(model="blind"))
        assert (refused.phase, bool(refused.report["problems"])) == (ReindexPhase.REFUSED, True)
        assert force_reindex(owner, SwitchIndex()).phase is ReindexPhase.DONE


class TestRowsOfBefore:
    """Rows as they were written before records were declared once."""

    def test_a_hold(self, system: System) -> None:
        names = ("reason", "by", "within", "category", "source", "since", "lifted", "liftedBy")
        row = {"subject": "holds", "entry": "8c1f0a94b2d7", "holdId": "8c1f0a94b2d7", **dict.fromkeys(names, "")}
        system.tables.table(LIFECYCLE).put({**row, "reason": "case", "by": "ada"})
        assert system.lifecycle.holds.get("8c1f0a94b2d7").reason == "case"

    def test_a_report_of_pruning(self) -> None:
        excess = {"category": "", "due": 3, "total": 4, "share": 0.75, "retentionBefore": "", "retention": ""}
        row = {
            "started": "2026-01-01T00:00:00Z",
            "finished": "2026-01-01T00:00:01Z",
            "dryRun": False,
            "until": "2025-12-31",
            "versions": 2,
            "chunks": 5,
            "removed": {"operations/alerts": 2},
            "kept": {},
            "held": {"8c1f0a94b2d7": 1},
            "redated": {},
            "stopped": [excess],
            "unfinished": False,
            "notes": ["a note"],
        }
        assert PruneReport.from_json(row).to_json() == row

    def test_editions_and_jobs(self, system: System) -> None:
        edition = {"name": "n", "model": "", "model_path": "", "model_id": "m", "dimension": 4, "state": "previous"}
        more = {"made_at": "", "switched_at": 0, "lineage": "", "ancestor": "", "incarnation": "", "later": 1}
        assert Edition.from_json({**edition, **more}) == Edition(
            "n", model_id="m", dimension=4, state=EditionState.PREVIOUS
        )
        job = {"edition": "n", "phase": "catching up", "lacking_count": 1, "not_before": 5, "subject": "index"}
        found = msgspec.convert(job, ReindexJob)
        assert (found.phase, found.lacking_count, found.not_before) == (ReindexPhase.CATCHING_UP, 1, 5.0)
        assert found.to_json()["lacking_count"] == 1

    def test_a_client(self, system: System) -> None:
        row = {"clientId": "#clients", "projectId": "old", "state": "removed", "since": "s", "by": "b", "removal": "r"}
        system.tables.table(PROJECTS).put(row)
        assert system.corpus.clients.get("old") == Client("old", ClientState.REMOVED, "s", "b", "r")


def test_whoever_is_no_operator_may_read_reviews_alone() -> None:
    from opx.operations import administration, lifecycle, projects
    from opx.operations.registry import REGISTRY
    from opx_assurance import operations

    modules = {module.__name__ for module in (administration, operations, lifecycle, projects)}
    mine: list[Operation[Any, Any]] = [one for one in REGISTRY if one.run.__module__ in modules]
    assert {one.name for one in mine if one.actions == (Action.READ,)} == {"list_reviews"}
    routed = [one for one in mine if one.route]
    administered = [one for one in routed if one.run.__module__ in (administration.__name__, operations.__name__)]
    assert {one.actions for one in administered} == {(Action.ADMINISTER,)}
    assert {one.name for one in routed} - {one.name for one in administered} == {
        *("list_reviews", "list_prunings", "list_holds", "add_hold", "lift_hold", "mark_reviewed"),
        *("list_projects", "get_project", "assign_project", "remove_project", "preview_project_move"),
    }
