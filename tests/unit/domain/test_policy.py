"""The policy's table, and properties of the decisions that follow from it. `OPX_ATTACK_CASES` raises the number of cases."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.domain.policy import (
    EVERYTHING,
    PERMITS,
    SCOPES,
    TABLE,
    TABLE_TEXT,
    Action,
    Everything,
    PolicyError,
    Principal,
    Role,
    Target,
    administrator_of,
    authorize,
    decide,
    parsed,
    roles_of,
    scopes_for,
    scopes_of_groups,
)
from opx.domain.policy import GROUPS as GROUPS_OF_PEOPLE
from opx.domain.scopes import Identity, Scope, reader_of
from opx.errors import ForbiddenError, NotOrchestratorError
from tests.support.attacks import Attack, AttackReport, examples

CLIENTS, PROJECTS, GROUPS = ("acme", "acme-b", "acmeb"), ("shop", "depot", "shop2"), ("retail", "shop")
READING = {Action.READ, Action.QUERY_PATTERNS}
CASES = examples(100, share=0.005)
pytestmark = pytest.mark.timeout(600)

OF_PROJECTS = [Scope(client, project_id=project) for client in CLIENTS for project in PROJECTS]
OF_GROUPS = [Scope(client, group_id=group) for client in CLIENTS for group in GROUPS]
levels = st.just(Scope()) | st.sampled_from([Scope(client) for client in CLIENTS]) | st.sampled_from(OF_PROJECTS)
scopes = levels | st.sampled_from(OF_GROUPS)
targets: st.SearchStrategy[Target] = scopes | st.just(EVERYTHING)
actions = st.sampled_from(Action)
token_scopes = st.frozensets(st.sampled_from([*SCOPES, "openid", "opx/", "opx/admins", "admin", "opx/Admin"]))
peers = st.frozensets(st.sampled_from(PROJECTS)).map(lambda found: tuple(sorted(found)))


@st.composite
def tokens(draw: st.DrawFn) -> Principal:
    """A principal with a token: of any scope, with any scopes, its project perhaps in a group."""
    own = draw(levels)
    grouped = draw(st.booleans()) and own.project_id
    group, projects = (draw(st.sampled_from(GROUPS)), draw(peers)) if grouped else ("", ())
    return Principal(own, roles_of(draw(token_scopes), own), group, projects)


@st.composite
def attempts(draw: st.DrawFn) -> tuple[Principal, Target]:
    """A token and a target, which is often the token's own, everybody's, or everything."""
    who = draw(tokens())
    near: st.SearchStrategy[Target] = st.sampled_from([who.own, Scope(who.own.client_id), Scope(), EVERYTHING])
    return who, draw(near | scopes)


def may(principal: Principal, action: Action, target: Target) -> bool:
    return not decide(principal, action, target)


class TestTable:
    def test_every_action_and_role_has_its_cell(self) -> None:
        assert set(TABLE) == set(PERMITS) == set(Action)
        assert all(set(row) == set(Role) for row in TABLE.values())

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            (("| curator", "| librarian"), r"no role 'librarian'; it has: reader, writer, curator"),
            (("\nwrite  ", "\nfly  "), r"line 4: unknown action 'fly'; known: read, read records, write"),
            (("| within", "| beyond"), r"line 7: unknown reach 'beyond'; known: -, visible, own, within, client, any"),
            (("\ncurate         |", "\nread           |"), r"line 5: read needs one row"),
            (("| curator", "| writer"), r"line 1: each role needs one column"),
            ((" | owner  ", ""), r"line 1: each role needs one column"),
            ((TABLE_TEXT[TABLE_TEXT.index("\nadminister") :], ""), r"administer has no row"),
        ],
    )
    def test_a_wrong_table_is_refused_with_its_line(self, change: tuple[str, str], problem: str) -> None:
        assert change[0] in TABLE_TEXT
        with pytest.raises(PolicyError, match=problem):
            parsed(TABLE_TEXT.replace(*change, 1))

    def test_an_unknown_action_or_role_of_a_caller_is_refused(self) -> None:
        with pytest.raises(PolicyError, match=r"no action 'fly'; it has: read, read records"):
            decide(Principal(Scope(), frozenset({Role.OWNER})), "fly", Scope())  # type: ignore[arg-type]
        with pytest.raises(PolicyError, match="no role 'librarian'"):
            Principal(Scope(), frozenset({"librarian"}))  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("own", "role"),
        [
            (Scope(), Role.CLIENT_ADMIN),
            (Scope(), Role.PROJECT_ADMIN),
            (Scope("acme"), Role.OPERATOR),
            (Scope("acme", project_id="shop"), Role.CLIENT_ADMIN),
        ],
    )
    def test_an_administrator_has_the_scope_of_the_role(self, own: Scope, role: Role) -> None:
        with pytest.raises(PolicyError, match=f"{role} is no role in {own.key}"):
            Principal(own, frozenset({role}))

    @given(levels, targets, actions)
    @CASES
    def test_a_stronger_role_may_whatever_a_weaker_one_may(self, own: Scope, target: Target, action: Action) -> None:
        admin = administrator_of(own)
        lines = (
            (Role.READER, Role.WRITER, Role.CURATOR, admin, Role.OWNER),
            (Role.READER, Role.ORCHESTRATOR, Role.OWNER),
        )
        for weaker, stronger in (pair for line in lines for pair in pairwise(line)):
            if may(Principal(own, frozenset({weaker})), action, target):
                assert may(Principal(own, frozenset({stronger})), action, target), (weaker, stronger)


def _client_of(target: Target) -> str | None:
    return None if isinstance(target, Everything) else target.client_id


def _is_of_another_client(who: Principal, action: Action, target: Target) -> bool:
    return bool(who.own.client_id) and _client_of(target) not in ("", who.own.client_id)


def _is_of_a_client_and_the_caller_is_not(who: Principal, action: Action, target: Target) -> bool:
    return not who.own.client_id and _client_of(target) != "" and Role.OPERATOR not in who.roles


def _is_of_another_project(who: Principal, action: Action, target: Target) -> bool:
    """True unless the target is read, and its project is in the caller's group."""
    own = who.own
    if not own.project_id or isinstance(target, Everything) or target in (own, Scope(), Scope(own.client_id)):
        return False
    in_group = target.project_id in who.group_projects or (target.group_id and target.group_id == who.group_id)
    return not (action in READING and in_group)


def _is_the_clients_and_is_changed_by_a_project(who: Principal, action: Action, target: Target) -> bool:
    return bool(who.own.project_id) and target == Scope(who.own.client_id) and action not in READING


def _moves_a_project(who: Principal, action: Action, target: Target) -> bool:
    return action is Action.GROUP_PROJECTS and not who.roles & {Role.CLIENT_ADMIN, Role.OPERATOR}


def _is_everybodys_and_is_changed(who: Principal, action: Action, target: Target) -> bool:
    looked_after = not who.own.client_id and who.roles & {Role.CURATOR, Role.OPERATOR}
    return target == Scope() and action not in READING and not looked_after


BOUNDARIES = (
    _is_of_another_client,
    _is_of_a_client_and_the_caller_is_not,
    _is_of_another_project,
    _is_the_clients_and_is_changed_by_a_project,
    _moves_a_project,
    _is_everybodys_and_is_changed,
)
"""Conditions under which no token may do something, whatever its scopes are."""


@pytest.fixture(scope="module")
def decisions(attack_report: AttackReport) -> Iterator[Attack]:
    with attack_report.attack("decisions of the policy") as found:
        yield found


class TestBoundaries:
    @pytest.mark.attack
    @given(attempt=attempts())
    @examples(500, share=0.08)  # each with every action
    def test_no_token_reaches_beyond_its_boundaries(self, decisions: Attack, attempt: tuple[Principal, Target]) -> None:
        who, target = attempt
        for action in Action:
            decisions.tried += 1
            crossed = [one.__name__ for one in BOUNDARIES if one(who, action, target)]
            assert not (crossed and may(who, action, target)), (action, crossed)

    @given(tokens(), scopes)
    @CASES
    def test_reading_is_permitted_where_searches_look(self, who: Principal, target: Scope) -> None:
        identity = Identity(who.own.client_id, who.own.project_id)
        seen = reader_of(identity, who.group_id, who.group_projects).visible
        assert may(who, Action.READ, target) == (target.key in seen)

    @given(st.lists(st.tuples(tokens(), st.sampled_from(PROJECTS), st.sampled_from((*GROUPS, ""))), max_size=12))
    @CASES
    def test_no_sequence_of_moves_by_projects_shows_one_to_another(
        self, moves: list[tuple[Principal, str, str]]
    ) -> None:
        """Each move is tried in the principal's own client; only a client's administrator and operators succeed."""
        groups: dict[tuple[str, str], str] = {}
        for who, project, group in moves:
            client = who.own.client_id or CLIENTS[0]
            if may(who, Action.GROUP_PROJECTS, Scope(client, project_id=project)):
                assert who.roles & {Role.CLIENT_ADMIN, Role.OPERATOR}
                groups[client, project] = group
        if not any(who.roles & {Role.CLIENT_ADMIN, Role.OPERATOR} for who, _, _ in moves):
            assert not groups


class TestTokens:
    @given(levels, token_scopes, token_scopes, actions, targets)
    @CASES
    def test_more_scopes_never_permit_less(
        self, own: Scope, some: frozenset[str], more: frozenset[str], action: Action, target: Target
    ) -> None:
        if may(Principal(own, roles_of(some, own)), action, target):
            assert may(Principal(own, roles_of(some | more, own)), action, target)

    @given(levels, token_scopes)
    @CASES
    def test_unknown_scopes_give_nothing(self, own: Scope, given_scopes: frozenset[str]) -> None:
        assert roles_of(given_scopes, own) == roles_of(given_scopes & SCOPES, own)

    @given(tokens(), st.lists(actions, min_size=1, max_size=2, unique=True), targets)
    @CASES
    def test_a_route_lets_every_token_pass_that_the_policy_permits(
        self, who: Principal, wanted: list[Action], target: Target
    ) -> None:
        """Else API Gateway would refuse what the table promises."""
        needed = scopes_for(wanted)
        by_scope = {
            scope for scope in SCOPES if roles_of({scope}, who.own) - {Role.READER} <= who.roles - {Role.READER}
        }
        if all(may(who, action, target) for action in wanted) and len(wanted) == 1:
            assert not needed or by_scope & set(needed)

    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            ((Action.READ,), ()),
            ((Action.QUERY_PATTERNS,), ()),
            ((Action.WRITE,), ("opx/write", "opx/curate", "opx/admin")),
            ((Action.QUERY_PATTERNS, Action.WRITE), ("opx/write", "opx/curate", "opx/admin")),
            ((Action.CURATE,), ("opx/curate", "opx/admin")),
            ((Action.WATCH,), ("opx/admin",)),
        ],
    )
    def test_scopes_of_a_route(self, wanted: tuple[Action, ...], expected: tuple[str, ...]) -> None:
        assert scopes_for(wanted) == expected

    def test_each_scope_has_one_group_of_people(self) -> None:
        assert sorted(GROUPS_OF_PEOPLE.values()) == sorted(SCOPES)
        assert scopes_of_groups({"opx-curator", "curator", "opx/admin"}) == {"opx/curate"}

    @pytest.mark.parametrize(
        ("own", "role"),
        [
            (Scope(), Role.OPERATOR),
            (Scope("acme"), Role.CLIENT_ADMIN),
            (Scope("acme", project_id="shop"), Role.PROJECT_ADMIN),
        ],
    )
    def test_the_admin_scope_is_for_the_tokens_own_scope(self, own: Scope, role: Role) -> None:
        assert roles_of({"opx/admin"}, own) == {Role.READER, role}


PROJECT = Scope("acme", project_id="shop")


class TestReasons:
    @pytest.mark.parametrize(
        ("own", "scope", "action", "target", "reason"),
        [
            (PROJECT, "opx/read", Action.WRITE, PROJECT, "a token with the scope opx/admin or opx/curate or opx/write"),
            (PROJECT, "opx/admin", Action.GROUP_PROJECTS, PROJECT, "with the scope opx/admin and no project"),
            (PROJECT, "opx/admin", Action.WATCH, EVERYTHING, "with the scope opx/admin and no client"),
            (Scope("acme"), "opx/admin", Action.SEE_PROJECT, Scope("b", project_id="x"), "is of another client"),
            (
                PROJECT,
                "opx/admin",
                Action.HOLD,
                Scope("acme"),
                "belongs to client:acme, and you are in client:acme/pro",
            ),
            (Scope(), "opx/write", Action.WRITE, Scope(), "names no client has nothing of its own"),
            (Scope("acme"), "opx/admin", Action.HOLD, EVERYTHING, "concerns all clients"),
        ],
    )
    def test_a_refusal_names_the_role_and_the_token(
        self, own: Scope, scope: str, action: Action, target: Target, reason: str
    ) -> None:
        with pytest.raises(ForbiddenError, match=re.escape(reason)):
            authorize(Principal(own, roles_of({scope}, own)), action, target)

    def test_patterns_are_for_orchestrators(self) -> None:
        authorize(Principal(PROJECT, roles_of({"opx/orchestrate"}, PROJECT)), Action.QUERY_PATTERNS, PROJECT)
        other = Principal(PROJECT, roles_of(SCOPES - {"opx/orchestrate"}, PROJECT), name="planner")
        with pytest.raises(NotOrchestratorError, match=r"planner is no orchestrator.*knowledge\.yaml.*opx/orchestrate"):
            authorize(other, Action.QUERY_PATTERNS, PROJECT)
