"""Rows of webhooks that are of clients: the newest known time of each of their documents. Archives have no deliveries."""

from __future__ import annotations

from collections.abc import Iterable

from opx.ports import Item, Table
from opx.ports.holdings import HeldItems
from opx.ports.rows import Rows
from opx.ports.tables import DELIVERIES
from opx_streams.webhooks.remembering import order_id


def _orders(table: Table, held: HeldItems) -> Iterable[Item]:
    return table.get_many([{"deliveryId": order_id(document.object_key)} for document in held.documents])


ROWS = Rows(table=DELIVERIES, name="orders of webhook deliveries", items=_orders)
