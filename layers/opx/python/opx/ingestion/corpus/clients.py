"""Registries of clients and projects, with the tombstones of removed clients.

A client needs no registration: its first document creates it. The tombstone of a removed client stays, so that a document
that is in flight or sent later doesn't create it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from opx.domain.ids import iso_time
from opx.domain.record import Record, replace
from opx.domain.scopes import Identity, Reader, Scope, reader_of
from opx.errors import ClientRemovedError, InvalidInputError, InvalidScopeError
from opx.ports import Clock, Item, KeyAbsent, Table
from opx.ports.tables import put_if

CLIENTS = "#clients"
"""Partition key of the clients in the table of projects. No client can have this id."""


class ClientState(StrEnum):
    """State of a client: `REMOVING` from the begin of its removal until the proof that nothing is left."""

    ACTIVE = "active"
    REMOVING = "removing"
    REMOVED = "removed"


class Client(Record, frozen=True):
    """A registered client. `since` is when it got into its state (ISO 8601), `removal` the name of its removal."""

    client_id: str
    state: ClientState = ClientState.ACTIVE
    since: str = ""
    by: str = ""
    removal: str = ""


class ClientView(Record, frozen=True):
    """A client with its state, if it is registered, and the numbers of its documents and projects."""

    client_id: str
    state: ClientState
    since: str
    documents: int
    projects: int


def client_key(client_id: str) -> dict[str, Any]:
    """Key of a client's item in the table of projects."""
    return {"clientId": CLIENTS, "projectId": client_id}


def is_removed(item: Item | None) -> bool:
    """True if the client of this item is removed, or being removed."""
    return item is not None and _state_of(item) is not ClientState.ACTIVE


def removed_error(client_id: str) -> ClientRemovedError:
    return ClientRemovedError(
        f"client {client_id} was removed; once `opx client remove` has finished, `opx client add {client_id}` enables it "
        "again"
    )


class ClientRegistry:
    """Clients in the table of projects. Reads are consistent."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def get(self, client_id: str) -> Client | None:
        """The client, if it was ever registered. Raises `InvalidScopeError` for a malformed id."""
        Scope(client_id)
        item = self._table.get(client_key(client_id)) if client_id else None
        return _from_item(item) if item else None

    def all(self) -> Iterator[Client]:
        """All registered clients, by id."""
        return map(_from_item, self._table.query(CLIENTS))

    def check(self, client_id: str) -> None:
        """Raises `ClientRemovedError` if the client was removed. The global scope ("") is always served."""
        if client_id and is_removed(self._table.get(client_key(client_id))):
            raise removed_error(client_id)

    def admit(self, scope: Scope) -> bool:
        """True if documents of this scope may be ingested; registers its client and its project if they are new."""
        if not scope.client_id:
            return True
        keys = [client_key(scope.client_id)]
        if scope.project_id:
            keys.append({"clientId": scope.client_id, "projectId": scope.project_id})
        known = {item["clientId"]: item for item in self._table.get_many(keys)}
        if is_removed(known.get(CLIENTS)):
            return False
        if CLIENTS not in known:
            self._note(_item(Client(scope.client_id, since=self._now())))
        if scope.project_id and scope.client_id not in known:
            self._note({**keys[1], "groupId": ""})
        return True

    def add(self, client_id: str, by: str = "") -> Client:
        """Registers a client, also one that was removed: it begins without documents.

        Raises `InvalidInputError` while it is being removed, and for "".
        """
        known = self.get(client_id)
        if not client_id or (known and known.state is ClientState.REMOVING):
            problem = (
                f"client {client_id} is being removed; let `opx client remove` finish" if known else "no client id"
            )
            raise InvalidInputError(problem)
        return self.put(Client(client_id, ClientState.ACTIVE, by=by)) if not known or is_gone(known) else known

    def put(self, client: Client) -> Client:
        """Stores the client, with the current time as `since`."""
        noted = replace(client, since=self._now())
        self._table.put(_item(noted))
        return noted

    def _note(self, item: Item) -> None:
        put_if(self._table, item, KeyAbsent())  # unless another process did

    def _now(self) -> str:
        return iso_time(self._clock())


def is_gone(client: Client) -> bool:
    return client.state is not ClientState.ACTIVE


def _item(client: Client) -> Item:
    return {**client.to_json(), **client_key(client.client_id)}


def _from_item(item: Item) -> Client:
    return Client.from_json({**item, "clientId": item["projectId"], "state": _state_of(item).value})


def _state_of(item: Item) -> ClientState:
    """The state in an item. One that lacks it, or has an unknown one, is of an active client: a damaged row must not keep
    everybody from working, and removals write theirs."""
    known = {state.value: state for state in ClientState}
    return known.get(str(item.get("state")), ClientState.ACTIVE)


# -- projects


class ProjectPlace(Record, frozen=True):
    """A project and its group, "" for none."""

    project_id: str
    group_id: str


class SightChange(Record, frozen=True):
    """Scopes that a project sees after a move and didn't before, and the other way round, as sorted scope keys."""

    project_id: str
    gained: tuple[str, ...]
    lost: tuple[str, ...]


class ProjectRegistry:
    """Projects of clients and their groups. Nothing is cached between calls: a move counts from the next query on."""

    def __init__(self, table: Table) -> None:
        self._table = table

    # -- changing

    def assign(self, client_id: str, project_id: str, group_id: str) -> None:
        """Puts a project in a group; an empty group takes it out. Raises `InvalidScopeError` for malformed ids."""
        self._table.put(project_item(client_id, project_id, group_id))

    def remove(self, client_id: str, project_id: str) -> None:
        """Deletes a project and its membership in a group. Its documents stay; the next one registers it again."""
        self._table.delete(_key(client_id, project_id))

    # -- reading

    def group_of(self, client_id: str, project_id: str) -> str:
        """The project's group, or "" if it is in none. Raises `InvalidScopeError` for malformed ids."""
        item = self._table.get(_key(client_id, project_id))
        return _group_of(item) if item else ""

    def projects(self, client_id: str) -> Iterator[ProjectPlace]:
        """Projects of a client by id: those that were put in groups, and those that had documents. Raises
        `InvalidScopeError` for a malformed id."""
        _require_client(client_id)
        for item in self._table.query(client_id):
            yield ProjectPlace(item["projectId"], _group_of(item))

    def members(self, client_id: str, group_id: str) -> tuple[str, ...]:
        """The projects of a group, by id; none for an unknown group. Raises `InvalidScopeError`."""
        _require_client(client_id)
        Scope(client_id, group_id=group_id)
        return self._members(client_id, group_id) if group_id else ()

    def reader(self, identity: Identity) -> Reader:
        """The reader of an identity, with the scopes that it may see now. Raises `InvalidScopeError` for malformed ids, and
        `ClientRemovedError`."""
        alone = reader_of(identity)  # refuses malformed ids before they become keys
        client, project = identity.client_id, identity.project_id
        if not client:
            return alone
        group = self._group_if_served(client, project)
        return reader_of(identity, group, self._members(client, group)) if group else alone

    def effects(self, client_id: str, project_id: str, group_id: str) -> list[SightChange]:
        """Changes of visibility if the project were put in this group ("": in none): for itself, and for each project of
        both groups, by id; projects without changes are left out. Raises `InvalidScopeError`."""
        key = _key(client_id, project_id)
        Scope(client_id, group_id=group_id)
        old = self.group_of(client_id, project_id)
        if old == group_id:
            return []
        before, joined = set(self.members(client_id, old)), set(self.members(client_id, group_id))
        was, becomes = (old, before), (group_id, joined | {project_id})
        moves = [(project_id, was, becomes)]
        moves += [(one, was, (old, before - {project_id})) for one in before - {project_id}]
        moves += [(one, (group_id, joined), becomes) for one in joined]
        changes = [_change(key["clientId"], *move) for move in moves]
        return sorted((change for change in changes if change.gained or change.lost), key=lambda one: one.project_id)

    def _group_if_served(self, client: str, project: str) -> str:
        """The project's group, in the same read as the client's state. Raises `ClientRemovedError`."""
        keys = [client_key(client), *([{"clientId": client, "projectId": project}] if project else [])]
        found: dict[str, Item] = {str(item["clientId"]): item for item in self._table.get_many(keys)}
        if is_removed(found.get(CLIENTS)):
            raise removed_error(client)
        return _group_of(found[client]) if client in found else ""

    def _members(self, client: str, group: str) -> tuple[str, ...]:
        """Projects of a group. The index may lag behind a move, so each is checked by a consistent read."""
        listed = self._table.query(f"{client}#{group}", index="group-index")
        keys = [{"clientId": client, "projectId": item["projectId"]} for item in listed]
        found = (item for item in self._table.get_many(keys) if _group_of(item) == group)
        return tuple(sorted(str(item["projectId"]) for item in found))


def project_item(client_id: str, project_id: str, group_id: str) -> Item:
    """The item of a project in a group, "" for none. Raises `InvalidScopeError`."""
    key = _key(client_id, project_id)
    Scope(client_id, group_id=group_id)
    in_group = {"groupKey": f"{client_id}#{group_id}"} if group_id else {}
    return {**key, "groupId": group_id, **in_group}


def _group_of(item: Item) -> str:
    """The group in a project's item; a damaged one is in none."""
    return str(item.get("groupId") or "")


def _require_client(client_id: str) -> None:
    if not Scope(client_id).client_id:
        raise InvalidScopeError("a project or group needs its client id")


def _key(client_id: str, project_id: str) -> dict[str, str]:
    """The key of a project's item. Raises `InvalidScopeError`."""
    _require_client(client_id)
    if not Scope(client_id, project_id=project_id).project_id:
        raise InvalidScopeError("no project id")
    return {"clientId": client_id, "projectId": project_id}


_Group = tuple[str, set[str]]
"""A group, "" for none, and its members."""


def _change(client: str, project: str, was: _Group, becomes: _Group) -> SightChange:
    before, after = _sight(client, project, was), _sight(client, project, becomes)
    return SightChange(project, tuple(sorted(after - before)), tuple(sorted(before - after)))


def _sight(client: str, project: str, group: _Group) -> set[str]:
    name, members = group
    return set(reader_of(Identity(client, project), name, tuple(members) if name else ()).visible)
