"""The policy: who may do what, as one table, and the one function that decides by it.

Every operation declares its actions (`opx.operations.registry`), and every edge and operation asks `decide`. It is pure:
it knows the caller's roles and scope, the action and its target, and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

from opx.domain.record import Record
from opx.domain.scopes import Identity, Scope, reader_of
from opx.errors import ForbiddenError, NotOrchestratorError

E = TypeVar("E", bound=StrEnum)

TABLE_TEXT = """
action         | reader  | writer  | curator | orchestrator | project admin | client admin | operator | owner   | permits
read           | visible | visible | visible | visible      | visible       | visible      | visible  | visible | search and read documents, procedures, the graph, baselines and reviews
read records   | own     | own     | own     | own          | own           | own          | own      | any     | list gaps, failed items, captured entries and merges
write          | -       | own     | own     | -            | own           | own          | own      | own     | change documents, aliases, baselines, captured entries and outcomes
curate         | -       | -       | own     | -            | own           | own          | own      | any     | check and settle gaps, and measure quality
query patterns | -       | -       | -       | visible      | -             | -            | -        | visible | query patterns learned from earlier work
read audit     | -       | -       | -       | -            | own           | own          | within   | within  | read the audit log
read usage     | -       | -       | -       | -            | -             | client       | client   | client  | read the use of clients
hold           | -       | -       | -       | -            | within        | within       | within   | within  | list, add and lift legal holds
see project    | -       | -       | -       | -            | within        | client       | client   | client  | see a project's group and its visible scopes
group projects | -       | -       | -       | -            | -             | client       | client   | client  | list and remove projects, and put them into groups
manage sources | -       | -       | -       | -            | own           | own          | own      | own     | manage sources, streams and models of confidence
watch          | -       | -       | -       | -            | -             | -            | any      | any     | see counts of all clients: queue, backlog, pruning reports
administer     | -       | -       | -       | -            | -             | -            | any      | any     | administer clients, archives, indexes, webhooks and secrets
"""  # noqa: E501 - a table is read by its columns
"""Rows: actions. Columns: roles. Cells: the targets that a role reaches (`Reach`)."""


class Role(StrEnum):
    """Roles of callers, all within the caller's scope. An orchestrator isn't part of the order of the others."""

    READER = "reader"
    WRITER = "writer"
    CURATOR = "curator"
    ORCHESTRATOR = "orchestrator"
    PROJECT_ADMIN = "project admin"
    CLIENT_ADMIN = "client admin"
    OPERATOR = "operator"
    OWNER = "owner"


class Action(StrEnum):
    """Kinds of use cases. The last column of the table describes each."""

    READ = "read"
    READ_RECORDS = "read records"
    WRITE = "write"
    CURATE = "curate"
    QUERY_PATTERNS = "query patterns"
    READ_AUDIT = "read audit"
    READ_USAGE = "read usage"
    HOLD = "hold"
    SEE_PROJECT = "see project"
    GROUP_PROJECTS = "group projects"
    MANAGE_SOURCES = "manage sources"
    WATCH = "watch"
    ADMINISTER = "administer"


class Reach(StrEnum):
    """The targets of an action that a role reaches.

    NONE: none. VISIBLE: scopes whose documents the caller sees. OWN: exactly the caller's scope; what belongs to everybody
    is the own of curators, operators and owners only. WITHIN: the caller's scope and all scopes in it. CLIENT: the
    caller's client and all scopes in it. Without a client, both are every target. ANY: every target, whatever client the
    caller names.
    """

    NONE = "-"
    VISIBLE = "visible"
    OWN = "own"
    WITHIN = "within"
    CLIENT = "client"
    ANY = "any"


class PolicyError(ValueError):
    """The table or a caller of it is wrong: an unknown role, action or reach, or a role without its scope."""


class Everything(Record, frozen=True):
    """The target of actions that concern all clients at once."""

    @property
    def key(self) -> str:
        return "all clients"


EVERYTHING = Everything()
Target = Scope | Everything
Table = Mapping[Action, Mapping[Role, Reach]]

_OWNERS_OF_THE_GLOBAL = frozenset({Role.CURATOR, Role.OPERATOR, Role.OWNER})


class Principal(Record, frozen=True):
    """A caller as the policy sees it. `own` is the scope of its new documents; `group_id` and `group_projects` are the group
    of its project, which matter for what it sees. Raises `PolicyError` for an administrator's role without its scope."""

    own: Scope
    roles: frozenset[Role]
    group_id: str = ""
    group_projects: tuple[str, ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        for role in self.roles:
            known_role(role)
        level = administrator_of(self.own)
        if wrong := self.roles & {Role.PROJECT_ADMIN, Role.CLIENT_ADMIN, Role.OPERATOR} - {level}:
            raise PolicyError(f"{min(wrong)} is no role in {self.own.key}: an administrator of it is a {level}")

    def sees(self, scope: Scope) -> bool:
        """True for a scope whose documents it sees."""
        identity = Identity(self.own.client_id, self.own.project_id)
        return reader_of(identity, self.group_id or self.own.group_id, self.group_projects).may_see(scope)

    def reaches(self, reach: Reach, role: Role, target: Target) -> bool:
        """True if a role of this reach covers the target."""
        own = self.own
        if isinstance(target, Everything) or reach in (Reach.NONE, Reach.ANY):
            return reach is Reach.ANY or (reach in (Reach.WITHIN, Reach.CLIENT) and not own.client_id)
        if reach is Reach.VISIBLE:
            return self.sees(target)
        if reach is Reach.OWN:
            return target == own and bool(own.client_id or role in _OWNERS_OF_THE_GLOBAL)
        return _is_within(target, own if reach is Reach.WITHIN else Scope(own.client_id))


def _is_within(target: Scope, own: Scope) -> bool:
    if not own.client_id:
        return True
    narrow = own.project_id or own.group_id
    return target == own if narrow else target.client_id == own.client_id


# -- roles of callers

READ_SCOPE, WRITE_SCOPE, CURATE_SCOPE = "opx/read", "opx/write", "opx/curate"
ORCHESTRATE_SCOPE, ADMIN_SCOPE = "opx/orchestrate", "opx/admin"

_ROLES_OF_SCOPES: Mapping[str, tuple[Role, ...]] = {
    READ_SCOPE: (Role.READER,),
    WRITE_SCOPE: (Role.WRITER,),
    CURATE_SCOPE: (Role.CURATOR,),
    ORCHESTRATE_SCOPE: (Role.ORCHESTRATOR,),
    ADMIN_SCOPE: (Role.PROJECT_ADMIN, Role.CLIENT_ADMIN, Role.OPERATOR),
}
"""Roles that a token's scope gives; of the administrators, the one that fits the client and project of the token."""

SCOPES = frozenset(_ROLES_OF_SCOPES)

GROUPS: Mapping[str, str] = {
    "opx-reader": READ_SCOPE,
    "opx-writer": WRITE_SCOPE,
    "opx-curator": CURATE_SCOPE,
    "opx-orchestrator": ORCHESTRATE_SCOPE,
    "opx-admin": ADMIN_SCOPE,
}
"""Groups of people at an identity provider, each with the scope that its members' tokens count as having. With a prefix, as
API Gateway writes a list of groups as words: a group of several words can't contain one of these by chance."""


def scopes_of_groups(groups: Collection[str]) -> frozenset[str]:
    """Scopes of a token whose owner is in these groups; unknown groups give none."""
    return frozenset(GROUPS[group] for group in groups if group in GROUPS)


def administrator_of(scope: Scope) -> Role:
    """The role of an administrator of this scope and no other."""
    if not scope.client_id:
        return Role.OPERATOR
    return Role.PROJECT_ADMIN if scope.project_id else Role.CLIENT_ADMIN


def roles_of(scopes: Collection[str], own: Scope) -> frozenset[Role]:
    """Roles of a token with these scopes, for its client and project. Every token is a reader's; unknown scopes give none."""
    given = {role for scope in scopes for role in _ROLES_OF_SCOPES.get(scope, ())}
    admins = {Role.PROJECT_ADMIN, Role.CLIENT_ADMIN, Role.OPERATOR}
    return frozenset({Role.READER, *(given - admins), *(given & admins & {administrator_of(own)})})


def scopes_for(actions: Collection[Action]) -> tuple[str, ...]:
    """Token scopes of which a call of these actions needs one; empty if it may need none. A token without any is a reader's,
    and patterns are also for callers that knowledge.yaml names."""
    needed = [action for action in actions if action is not Action.QUERY_PATTERNS and not _permits(action, Role.READER)]
    return tuple(
        scope
        for scope, roles in _ROLES_OF_SCOPES.items()
        if needed and all(any(_permits(action, role) for role in roles) for action in needed)
    )


# -- decisions


def decide(principal: Principal, action: Action, target: Target) -> str:
    """The reason why a principal may not do this to the target, "" if it may. Raises `PolicyError` for an unknown action."""
    row = row_of(action)
    if any(principal.reaches(row[role], role, target) for role in principal.roles):
        return ""
    if action is Action.QUERY_PATTERNS:
        return (
            f"{principal.name[:100] or 'a caller without a name'} is no orchestrator, and only orchestrators may query "
            "patterns: name it in knowledge.yaml under `learning: {orchestrators: [...]}`, or give its token the scope "
            f"{ORCHESTRATE_SCOPE}"
        )
    if all(row[role] is Reach.NONE for role in principal.roles):
        return f"the caller may not {PERMITS[action]}: {_needed(row)}"
    return f"the caller may not {PERMITS[action]} there: {_beyond(principal.own, target)}"


def authorize(principal: Principal, action: Action, target: Target) -> None:
    """Raises `NotOrchestratorError` for patterns, else `ForbiddenError`, unless the policy permits the action."""
    if reason := decide(principal, action, target):
        raise (NotOrchestratorError if action is Action.QUERY_PATTERNS else ForbiddenError)(reason)


def _needed(row: Mapping[Role, Reach]) -> str:
    able = [role for role, reach in row.items() if reach is not Reach.NONE and role is not Role.OWNER]
    scopes = [scope for scope, roles in _ROLES_OF_SCOPES.items() if not set(roles).isdisjoint(able)]
    level = _level(row)
    return f"this needs a token with the scope {' or '.join(sorted(scopes))}{level} (role: {', '.join(able)})"


def _level(row: Mapping[Role, Reach]) -> str:
    """The condition on an administrator's token beyond its scope, "" for none."""
    if row[Role.PROJECT_ADMIN] is not Reach.NONE:
        return ""
    return " and no project" if row[Role.CLIENT_ADMIN] is not Reach.NONE else " and no client"


def token_of(action: Action) -> str:
    """The token that an action needs, in words."""
    if action is Action.QUERY_PATTERNS:
        return f"{ORCHESTRATE_SCOPE}, or a name in knowledge.yaml"
    scopes = scopes_for([action])
    return " or ".join(scopes) + _level(row_of(action)) if scopes else "any"


def _beyond(own: Scope, target: Target) -> str:
    """The reason why a target is out of reach, without revealing anything about it."""
    if isinstance(target, Everything):
        return "it concerns all clients, which only operators may see"
    if not own.client_id and not target.client_id:
        return (
            "a token that names no client has nothing of its own; what belongs to everybody is for the scopes "
            f"{CURATE_SCOPE} and {ADMIN_SCOPE}"
        )
    if own.client_id and target.client_id not in ("", own.client_id):
        return f"{target.key} is of another client"
    return f"it belongs to {target.key}, and you are in {own.key}"


# -- the table


def row_of(action: Action) -> Mapping[Role, Reach]:
    """The reach of every role. Raises `PolicyError` for an action without a row."""
    try:
        return TABLE[action]
    except KeyError:
        raise PolicyError(f"the policy has no action {str(action)!r}; it has: {', '.join(Action)}") from None


def known_role(name: str) -> Role:
    """The role of this name. Raises `PolicyError`."""
    try:
        return Role(name)
    except ValueError:
        raise PolicyError(f"the policy has no role {name!r}; it has: {', '.join(Role)}") from None


def parsed(text: str) -> tuple[Table, Mapping[Action, str]]:
    """The table in this text, and the description of each action. Raises `PolicyError`, with the line, for an unknown or
    repeated role, action or reach, and for one that is missing."""
    lines = [line.split("|") for line in text.strip().splitlines()]
    roles = [known_role(name.strip()) for name in lines[0][1:-1]]
    if sorted(roles) != sorted(Role):
        raise PolicyError(f"policy, line 1: each role needs one column: {', '.join(Role)}")
    rows: dict[Action, Mapping[Role, Reach]] = {}
    permits: dict[Action, str] = {}
    for number, (name, *cells, about) in enumerate(lines[1:], start=2):
        action = _member(Action, name, number)
        if action in rows or len(cells) != len(roles):
            raise PolicyError(f"policy, line {number}: {action} needs one row with {len(roles)} cells")
        reaches = (_member(Reach, cell, number) for cell in cells)
        rows[action] = MappingProxyType(dict(zip(roles, reaches, strict=True)))
        permits[action] = about.strip()
    if missing := [action for action in Action if action not in rows]:
        raise PolicyError(f"policy: {', '.join(missing)} has no row")
    return MappingProxyType(rows), MappingProxyType(permits)


def _member(kind: type[E], text: str, line: int) -> E:
    try:
        return kind(text.strip())
    except ValueError:
        known = ", ".join(kind)
        raise PolicyError(
            f"policy, line {line}: unknown {kind.__name__.lower()} {text.strip()!r}; known: {known}"
        ) from None


TABLE, PERMITS = parsed(TABLE_TEXT)


def _permits(action: Action, role: Role) -> bool:
    return row_of(action)[role] is not Reach.NONE
