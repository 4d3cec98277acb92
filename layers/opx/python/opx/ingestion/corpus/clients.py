"""Which clients and projects there are, and which clients were removed.

A client needs no registration: the first document of one makes it known. What was removed stays noted, so that nothing
that is still under way, or that is sent later, makes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from opx.domain.record import Record, replace
from opx.domain.scopes import Scope
from opx.domain.times import iso_time
from opx.errors import ClientRemovedError, ConditionFailedError, InvalidInputError
from opx.ports import Absent, Clock, Item, Table

CLIENTS = "#clients"
"""The partition of the table of projects that has an item a client. No client can have this id."""


class ClientState(StrEnum):
    """`REMOVING` from the moment that its removal begins until it is proven."""

    ACTIVE = "active"
    REMOVING = "removing"
    REMOVED = "removed"


class Client(Record, frozen=True):
    """A client as it is noted. `since` is when it got into its state (ISO 8601), `removal` the name of its removal."""

    client_id: str
    state: ClientState = ClientState.ACTIVE
    since: str = ""
    by: str = ""
    removal: str = ""


class ClientView(Record, frozen=True):
    """A client, as it was noted if it was, and how many documents and projects it has."""

    client_id: str
    state: ClientState
    since: str
    documents: int
    projects: int


def client_key(client_id: str) -> dict[str, Any]:
    """The key of a client's item in the table of projects."""
    return {"clientId": CLIENTS, "projectId": client_id}


def is_removed(item: Item | None) -> bool:
    """Whether this item of a client says that nothing is to be done for it."""
    return bool(item) and item["state"] != ClientState.ACTIVE.value  # type: ignore[index]


def removed_error(client_id: str) -> ClientRemovedError:
    return ClientRemovedError(
        f"client {client_id} was removed; when `opx client remove` is through, `opx client add {client_id}` has it "
        "served again"
    )


class ClientRegistry:
    """The clients in the table of projects. Reads are consistent."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def get(self, client_id: str) -> Client | None:
        """The client, if it was ever noted. Raises `InvalidScopeError` for a malformed id."""
        Scope(client_id)
        item = self._table.get(client_key(client_id)) if client_id else None
        return _from_item(item) if item else None

    def all(self) -> Iterator[Client]:
        """Every client that was noted, by id."""
        return map(_from_item, self._table.query(CLIENTS))

    def check(self, client_id: str) -> None:
        """Raise `ClientRemovedError` if the client was removed. Everybody's documents ("") are always served."""
        if client_id and is_removed(self._table.get(client_key(client_id))):
            raise removed_error(client_id)

    def admit(self, scope: Scope) -> bool:
        """Whether documents of this scope may be taken in; notes its client and its project if they are new."""
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
        """Serve a client, also one that was removed: it begins with nothing.

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
        """Note the client as it is now."""
        noted = replace(client, since=self._now())
        self._table.put(_item(noted))
        return noted

    def _note(self, item: Item) -> None:
        try:
            self._table.put(item, condition=Absent())
        except ConditionFailedError:  # somebody else did
            return

    def _now(self) -> str:
        return iso_time(self._clock())


def is_gone(client: Client) -> bool:
    return client.state is not ClientState.ACTIVE


def _item(client: Client) -> Item:
    return {**client.to_json(), **client_key(client.client_id)}


def _from_item(item: Item) -> Client:
    return Client.from_json({**item, "clientId": item["projectId"]})
