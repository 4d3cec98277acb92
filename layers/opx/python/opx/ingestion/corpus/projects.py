"""From an identity to what it may see, with the project registry read at query time."""

from __future__ import annotations

from collections.abc import Iterator

from opx.domain.record import Record
from opx.domain.scopes import Identity, Reader, Scope, reader_of
from opx.errors import InvalidScopeError
from opx.ports import Item, Table


class ProjectPlace(Record, frozen=True):
    """A project and its group, "" for none."""

    project_id: str
    group_id: str


class SightChange(Record, frozen=True):
    """What a project sees after a move and didn't before, and the other way round, as scope keys in order."""

    project_id: str
    gained: tuple[str, ...]
    lost: tuple[str, ...]


class ProjectRegistry:
    """Which group a client's project is in. Nothing is remembered between calls: a move counts from the next query on."""

    def __init__(self, table: Table) -> None:
        self._table = table

    # -- changing

    def assign(self, client_id: str, project_id: str, group_id: str) -> None:
        """Put a project in a group; an empty group takes it out. Raises `InvalidScopeError` for malformed ids."""
        key = _key(client_id, project_id)
        Scope(client_id, group_id=group_id)
        in_group = {"groupKey": f"{client_id}#{group_id}"} if group_id else {}
        self._table.put({**key, "groupId": group_id, **in_group})

    def remove(self, client_id: str, project_id: str) -> None:
        """Forget a project, and that it is in a group. Its documents stay; the next one notes it again."""
        self._table.delete(_key(client_id, project_id))

    # -- reading

    def group_of(self, client_id: str, project_id: str) -> str:
        """The project's group, or "" if it is in none. Raises `InvalidScopeError` for malformed ids."""
        item = self._table.get(_key(client_id, project_id))
        return str(item["groupId"]) if item else ""

    def projects(self, client_id: str) -> Iterator[ProjectPlace]:
        """A client's projects by id: those that were put in groups, and those that had documents. Raises
        `InvalidScopeError` for a malformed id."""
        _require_client(client_id)
        for item in self._table.query(client_id):
            yield ProjectPlace(item["projectId"], item["groupId"])

    def members(self, client_id: str, group_id: str) -> tuple[str, ...]:
        """The projects of a group, by id; none for a group that isn't there. Raises `InvalidScopeError`."""
        _require_client(client_id)
        Scope(client_id, group_id=group_id)
        return self._members(client_id, group_id) if group_id else ()

    def reader(self, identity: Identity) -> Reader:
        """What this identity may see now. Raises `InvalidScopeError` for malformed ids, and `ClientRemovedError`."""
        alone = reader_of(identity)  # refuses malformed ids before they become keys
        client, project = identity.client_id, identity.project_id
        if not client:
            return alone
        group = self._group_if_served(client, project)
        return reader_of(identity, group, self._members(client, group)) if group else alone

    def effects(self, client_id: str, project_id: str, group_id: str) -> list[SightChange]:
        """What would change if the project were put in this group ("": in none): for itself, and for each project of
        both groups, by id; those for whom nothing changes are left out. Raises `InvalidScopeError`."""
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
        """The project's group, in the read that also tells whether the client was removed."""
        from opx.ingestion.corpus.clients import CLIENTS, client_key, is_removed, removed_error

        keys = [client_key(client), *([{"clientId": client, "projectId": project}] if project else [])]
        found: dict[str, Item] = {str(item["clientId"]): item for item in self._table.get_many(keys)}
        if is_removed(found.get(CLIENTS)):
            raise removed_error(client)
        return str(found[client]["groupId"]) if client in found else ""

    def _members(self, client: str, group: str) -> tuple[str, ...]:
        """Projects of a group. The index may lag behind a move, so that each is checked where reads are consistent."""
        listed = self._table.query(f"{client}#{group}", index="group-index")
        keys = [{"clientId": client, "projectId": item["projectId"]} for item in listed]
        found = (item for item in self._table.get_many(keys) if item["groupId"] == group)
        return tuple(sorted(str(item["projectId"]) for item in found))


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
