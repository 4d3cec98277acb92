"""From an identity to what it may see, with the project registry read at query time."""

from __future__ import annotations

from opx.domain.scopes import Identity, Reader, Scope, reader_of
from opx.ports import Table


class ProjectRegistry:
    """Which group a client's project is in. Moving a project takes effect on the next query."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def assign(self, client_id: str, project_id: str, group_id: str) -> None:
        """Put a project in a group; an empty group takes it out. Raises `InvalidScopeError` for malformed ids."""
        Scope(client_id, project_id=project_id)
        key = {"clientId": client_id, "projectId": project_id}
        if not group_id:
            self._table.delete(key)
            return
        Scope(client_id, group_id=group_id)
        self._table.put({**key, "groupId": group_id, "groupKey": f"{client_id}#{group_id}"})

    def group_of(self, client_id: str, project_id: str) -> str:
        """The project's group, or "" if it is in none."""
        item = self._table.get({"clientId": client_id, "projectId": project_id})
        return str(item["groupId"]) if item else ""

    def reader(self, identity: Identity) -> Reader:
        """What this identity may see now. Raises `InvalidScopeError` for malformed ids."""
        client, project = identity.client_id, identity.project_id
        if not (client and project):
            return reader_of(identity)
        reader_of(identity)  # refuse malformed ids before they become keys
        group = self.group_of(client, project)
        if not group:
            return reader_of(identity)
        return reader_of(identity, group, self._members(client, group))

    def _members(self, client: str, group: str) -> tuple[str, ...]:
        """Projects of a group. The index may lag behind a move, so that each is checked where reads are consistent."""
        listed = self._table.query(f"{client}#{group}", index="group-index")
        keys = [{"clientId": client, "projectId": item["projectId"]} for item in listed]
        return tuple(str(item["projectId"]) for item in self._table.get_many(keys) if item["groupId"] == group)
