"""Scopes (owners of documents), identities of callers, and the scopes that a reader may see.

A document is owned at exactly one level: everyone (global), a client, a group of a client's projects, or one project.
Group membership is a registry that is read at query time, so moving a project needs no re-indexing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from msgspec import Struct

from opx.domain.record import Record
from opx.errors import InvalidScopeError

GLOBAL_KEY = "global"
SELF_TEST_CLIENTS = ("opx-doctor-a", "opx-doctor-b")
"""Clients as which `opx doctor` asks. Their questions are no gaps of the knowledge."""

_KEY = re.compile(r"client:(?P<client>[^/:]+)(?:/group:(?P<group>[^/:]+)|/project:(?P<project>[^/:]+))?\Z")
_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


class Scope(Record, frozen=True, order=True):
    """The owner of a document. Empty strings mean "none"; all empty is global.

    Raises `InvalidScopeError` for a group or project without its client, for both a group and a project, and for an
    identifier that is not 1-64 letters, digits, `.`, `_` or `-`. They are literal in every store: no pattern is ever
    built from an identifier.
    """

    client_id: str = ""
    group_id: str = ""
    project_id: str = ""

    def __post_init__(self) -> None:
        for name, value in (("client", self.client_id), ("group", self.group_id), ("project", self.project_id)):
            if value and (".." in value or not _SEGMENT.match(value)):
                raise InvalidScopeError(
                    f"{name} id {value[:100]!r} is not 1-64 letters, digits, '.', '_' or '-' (the first a letter or digit, "
                    "no '..')"
                )
        if self.client_id == GLOBAL_KEY:
            raise InvalidScopeError(f"no client may be called {GLOBAL_KEY!r}: that is what belongs to everybody")
        if (self.group_id or self.project_id) and not self.client_id:
            raise InvalidScopeError("a group or project needs its client id")
        if self.group_id and self.project_id:
            raise InvalidScopeError("a document belongs to a group or to a project, not to both")

    @property
    def key(self) -> str:
        """One string for the scope, used as filter value in every index."""
        if not self.client_id:
            return GLOBAL_KEY
        if self.group_id:
            return f"client:{self.client_id}/group:{self.group_id}"
        if self.project_id:
            return f"client:{self.client_id}/project:{self.project_id}"
        return f"client:{self.client_id}"

    @property
    def prefix(self) -> str:
        """The folder of this scope in the corpus store: `""` for global, else ends with `/`."""
        if not self.client_id:
            return ""
        base = f"clients/{self.client_id}/"
        if self.group_id:
            return f"{base}groups/{self.group_id}/"
        if self.project_id:
            return f"{base}projects/{self.project_id}/"
        return base


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of a caller, as established by the application (session attributes, token claims, configuration).

    `principal` names the person, program or agent where that is known. It is kept in the audit log and decides nothing
    but who may query patterns (`opx.learning.rules`).
    """

    client_id: str = ""
    project_id: str = ""
    principal: str = field(default="", compare=False)


class Reader(Struct, frozen=True):
    """A resolved identity: the scope keys it may see, in a stable order. Always includes global."""

    identity: Identity
    visible: tuple[str, ...]

    def may_see(self, scope: Scope) -> bool:
        return scope.key in self.visible


def reader_of(identity: Identity, group_id: str = "", group_projects: tuple[str, ...] = ()) -> Reader:
    """Everything that `identity` may see: global, its client, its group, itself and its group's projects.

    Raises `InvalidScopeError` for malformed identifiers, so that a wild card never becomes a filter.
    """
    scopes = [Scope()]
    client = identity.client_id
    if identity.project_id and not client:
        raise InvalidScopeError("a project needs its client id")
    if client:
        scopes.append(Scope(client))
    if client and group_id:
        scopes.append(Scope(client, group_id=group_id))
    projects = {identity.project_id, *group_projects} - {""}
    scopes.extend(Scope(client, project_id=project) for project in sorted(projects))
    return Reader(identity, tuple(scope.key for scope in scopes))


def scope_of_key(scope_key: str) -> Scope:
    """The scope whose `key` this is. Raises `InvalidScopeError` for any other string."""
    if scope_key == GLOBAL_KEY:
        return Scope()
    found = _KEY.match(scope_key)
    scope = Scope(found["client"], found["group"] or "", found["project"] or "") if found else Scope()
    if scope.key != scope_key:
        raise InvalidScopeError(f"{scope_key[:100]!r} is not the key of a scope")
    return scope


def scope_of_object(object_key: str) -> tuple[Scope, str]:
    """Split a corpus object key into its owner and the rest: `clients/a/projects/p/documents/x` -> (scope, `documents/x`).

    Raises `InvalidScopeError` for a missing or malformed id, so that such a key is never read as one of a wider scope.
    """
    parts = object_key.split("/")
    if parts[0] != "clients" or len(parts) < 3:
        return Scope(), object_key
    client, rest = parts[1], parts[2:]
    owned = len(rest) > 2 and rest[0] in ("groups", "projects")
    if not client or (owned and not rest[1]):
        raise InvalidScopeError(f"object key {object_key[:100]!r} has an empty client, group or project id")
    if not owned:
        return Scope(client), "/".join(rest)
    owner, source = rest[1], "/".join(rest[2:])
    return (Scope(client, group_id=owner) if rest[0] == "groups" else Scope(client, project_id=owner)), source
