"""Operations and the policy: what each declares, what callers may do by their roles, and what counts they see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.domain.policy import EVERYTHING, TABLE, Action, Role, Target
from opx.domain.scopes import Identity, Scope
from opx.edges.calling import LocalClient, perform
from opx.errors import ForbiddenError, NotOrchestratorError
from opx.learning.rules import LearningRules, read_learning_rules
from opx.operations import load
from opx.operations.context import Caller, Context
from opx.operations.corpus import GetStatus, ListFailures, get_status, list_failures
from opx.operations.documents import list_categories
from opx.operations.graph import ListMerges, list_merges
from opx.operations.lifecycle import ListPrunings, list_prunings
from opx.operations.patterns import ListPatterns, list_patterns
from opx.operations.projects import AssignProject, GetProject, assign_project, get_project
from opx.operations.questions import ListGaps, SettleGap, list_gaps, settle_gap
from opx.operations.registry import DeclarationError, Registry, operation
from opx.operations.search import Query, query
from opx.operations.system import System
from opx.operations.usage import GetCosts, GetUsage, get_costs, get_usage
from opx.settings import Settings
from tests.support.cli_support import word_services
from tests.support.programs import program

DOCUMENT = Path(__file__).parents[3] / "docs" / "tenants.md"
PROJECT, CLIENT, NOBODY = Identity("acme", "shop"), Identity("acme"), Identity()


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with word_services(Settings(home=str(tmp_path_factory.mktemp("home")))) as found:
        found.installation.declare(read_learning_rules, LearningRules(orchestrators=frozenset({"planner"})))
        found.store.put("documents/broken.json", b"{")
        found.store.put("clients/other/documents/broken.json", b"{")
        list(found.manager.work())
        for who in (NOBODY, Identity("other")):
            LocalClient(Context(found, Caller(who))).call(query, Query(query="brew espresso on mondays"))
        found.store.put("clients/other/documents/waiting.md", b"# Waiting")
        yield found


def token(services: System, identity: Identity, *scopes: str) -> LocalClient:
    return LocalClient(Context(services, Caller(identity, token_scopes=frozenset(scopes))))


class TestDeclarations:
    def test_every_operation_has_a_row_for_each_of_its_actions(self) -> None:
        operations = list(load())
        assert len(operations) > 100
        assert [one.name for one in operations if not one.actions or not set(one.actions) <= set(TABLE)] == []

    def test_every_action_is_of_some_operation(self) -> None:
        assert {action for one in load() for action in one.actions} == set(Action)

    def test_an_operation_with_an_unknown_action_is_refused(self) -> None:
        with pytest.raises(DeclarationError, match="list_categories: the policy has no action 'fly'"):
            operation(action="fly", registry=Registry())(list_categories)  # type: ignore[arg-type]

    def test_a_tool_that_writes_needs_the_action_of_writing(self) -> None:
        writing = [one for one in load() if one.tool and one.tool.writes]
        assert len(writing) > 5
        assert [one.name for one in writing if Action.WRITE not in one.actions] == []

    def test_an_operation_needs_all_of_its_actions(self, services: System) -> None:
        """An orchestrator that may only read doesn't merge patterns, and neither does a writer that is no orchestrator."""
        merging = load().get("merge_patterns")
        assert merging is not None
        request = merging.request(pattern_id="a", other_id="b")
        for scope, error in (("opx/orchestrate", ForbiddenError), ("opx/write", NotOrchestratorError)):
            caller = Caller(PROJECT, token_scopes=frozenset({scope}))
            with pytest.raises(error):
                perform(merging, Context(services, caller), request)

    def test_the_tables_of_the_documentation_are_current(self) -> None:
        document, policy_table = DOCUMENT.read_text(encoding="utf-8"), program("policy_table")
        assert policy_table.written_into(document) == document
        with pytest.raises(ValueError, match="has no marks"):
            policy_table.written_into("# Tenants")


class TestRoles:
    @pytest.mark.parametrize(
        ("caller", "roles"),
        [
            (Caller(PROJECT, owns_system=True), {Role.OWNER}),
            (Caller(PROJECT), {Role.PROJECT_ADMIN}),
            (Caller(CLIENT, agent="deployer"), {Role.CLIENT_ADMIN}),
            (Caller(NOBODY), {Role.OPERATOR}),
            (Caller(CLIENT, token_scopes=frozenset()), {Role.READER}),
            (Caller(CLIENT, token_scopes=frozenset({"opx/write", "openid"})), {Role.READER, Role.WRITER}),
        ],
    )
    def test_each_kind_of_caller_has_its_role(self, caller: Caller, roles: set[Role]) -> None:
        own = Scope(caller.identity.client_id, project_id=caller.identity.project_id)
        assert caller.roles(own) == roles

    @pytest.mark.parametrize(
        ("caller", "action", "target", "permitted"),
        [
            (Caller(CLIENT, owns_system=True), Action.ADMINISTER, EVERYTHING, True),
            (Caller(CLIENT), Action.ADMINISTER, EVERYTHING, False),
            (Caller(NOBODY), Action.ADMINISTER, EVERYTHING, True),
            (Caller(CLIENT, owns_system=True), Action.GROUP_PROJECTS, Scope("other", project_id="p"), False),
            (Caller(NOBODY, owns_system=True), Action.GROUP_PROJECTS, Scope("other", project_id="p"), True),
            (Caller(PROJECT, owns_system=True), Action.GROUP_PROJECTS, Scope("acme", project_id="p"), True),
            (Caller(PROJECT), Action.GROUP_PROJECTS, Scope("acme", project_id="shop"), False),
        ],
    )
    def test_callers_without_tokens(
        self, services: System, caller: Caller, action: Action, target: Target, permitted: bool
    ) -> None:
        assert Context(services, caller).may(action, target) is permitted

    def test_orchestrators_are_known_by_name_or_by_scope(self, services: System) -> None:
        named = Caller(Identity("acme", "shop", "planner"), token_scopes=frozenset({"opx/read"}))
        for client in (LocalClient(Context(services, named)), token(services, PROJECT, "opx/orchestrate")):
            assert client.call(list_patterns, ListPatterns()).patterns == ()
        with pytest.raises(NotOrchestratorError):
            token(services, PROJECT, "opx/write", "opx/curate", "opx/admin").call(list_patterns, ListPatterns())

    def test_a_projects_administrator_moves_nothing_and_a_clients_does(self, services: System) -> None:
        move = AssignProject(client_id="acme", project_id="shop", group_id="retail")
        with pytest.raises(ForbiddenError, match="no project"):
            token(services, PROJECT, "opx/admin").call(assign_project, move)
        assert token(services, CLIENT, "opx/admin").call(assign_project, move).group_id == "retail"
        seen = token(services, PROJECT, "opx/admin").call(get_project, GetProject("acme", "shop"))
        assert "client:acme/group:retail" in seen.visible


class TestCounts:
    @pytest.mark.parametrize(
        ("identity", "scopes", "shown", "failed"),
        [
            (NOBODY, ("opx/read",), False, None),
            (NOBODY, ("opx/write",), False, None),
            (NOBODY, ("opx/curate",), False, 1),
            (NOBODY, ("opx/admin",), True, 1),
            (CLIENT, ("opx/admin",), False, 0),
            (PROJECT, ("opx/read",), False, 0),
            (Identity("other"), ("opx/read",), False, 1),
        ],
    )
    def test_the_queue_is_for_operators_and_failures_for_their_owners(
        self, services: System, identity: Identity, scopes: tuple[str, ...], shown: bool, failed: int | None
    ) -> None:
        status = token(services, identity, *scopes).call(get_status, GetStatus())
        assert (status.waiting, status.backlog is not None, status.failed) == (1 if shown else None, shown, failed)

    @pytest.mark.parametrize(
        ("run", "request_"),
        [
            (list_gaps, ListGaps()),
            (list_failures, ListFailures()),
            (list_prunings, ListPrunings()),
            (list_merges, ListMerges()),
            (get_usage, GetUsage()),
            (get_costs, GetCosts()),
            (settle_gap, SettleGap(gap_id="0", ignore=True)),
        ],
    )
    def test_a_reader_without_a_client_has_no_records(self, services: System, run: Any, request_: Any) -> None:
        for scopes in (("opx/read",), ("opx/write", "opx/orchestrate"), ()):
            with pytest.raises(ForbiddenError):
                token(services, NOBODY, *scopes).call(run, request_)

    def test_curators_see_and_settle_the_gaps_of_their_own_scope(self, services: System) -> None:
        (gap,) = token(services, NOBODY, "opx/curate").call(list_gaps, ListGaps()).gaps
        assert gap.scope == "global"
        assert token(services, CLIENT, "opx/curate").call(list_gaps, ListGaps()).gaps == ()
        with pytest.raises(ForbiddenError, match="check and settle gaps"):
            token(services, Identity("other"), "opx/write").call(settle_gap, SettleGap(gap_id="0", ignore=True))

    def test_a_projects_administrator_does_not_see_the_use_of_its_client(self, services: System) -> None:
        assert token(services, CLIENT, "opx/admin").call(get_usage, GetUsage()).clients == ()
        with pytest.raises(ForbiddenError, match="no project"):
            token(services, PROJECT, "opx/admin").call(get_usage, GetUsage())

    def test_costs_are_for_administrators_of_all_clients(self, services: System) -> None:
        assert token(services, NOBODY, "opx/admin").call(get_costs, GetCosts()).months[0].clients == ()
        for identity in (CLIENT, PROJECT):
            with pytest.raises(ForbiddenError):
                token(services, identity, "opx/admin").call(get_costs, GetCosts())

    def test_pruning_reports_are_for_operators(self, services: System) -> None:
        assert token(services, NOBODY, "opx/admin").call(list_prunings, ListPrunings()).prunings == ()
        with pytest.raises(ForbiddenError, match="no client"):
            token(services, CLIENT, "opx/admin").call(list_prunings, ListPrunings())
