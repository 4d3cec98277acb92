"""Which graph this is: one whose table is empty lacks what all documents say, whatever the catalog has noted of them."""

from __future__ import annotations

import secrets
from contextlib import suppress

from opx.errors import ConditionFailedError
from opx.ports import Absent, Table

_KEY = {"place": "#graph", "entry": "incarnation"}
"""No scope and no reference begins so."""


def incarnation(table: Table) -> str:
    """The name of the graph in this table; one that has none gets it. Raises `StoreUnavailableError`."""
    item = table.get(_KEY)
    if item is None:
        with suppress(ConditionFailedError):  # another process was first
            table.put({**_KEY, "token": secrets.token_hex(8)}, condition=Absent())
        item = table.get(_KEY)
    return str(item["token"]) if item else ""


def renew(table: Table) -> None:
    """Give the graph another name: all documents count as missing in it. Raises `StoreUnavailableError`."""
    table.put({**_KEY, "token": secrets.token_hex(8)})
