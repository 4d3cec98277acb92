"""Operations on the use of clients: questions and documents of a month."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta

from opx.domain.policy import EVERYTHING, Action, Target
from opx.domain.record import Record
from opx.domain.requests import Request, Text
from opx.domain.scopes import GLOBAL_KEY, Scope
from opx.lifecycle.usage import ClientUsage, DayCount
from opx.operations.context import Context
from opx.operations.paging import MAX_PAGE, After, Limit, Next, fitting, read_token, token
from opx.operations.registry import Function, operation

Month = Annotated[
    str, Meta(pattern=r"^(\d{4}-(0[1-9]|1[0-2]))?$", description="Such as 2026-11; left out, the current one (UTC).")
]


class GetUsage(Request, frozen=True):
    month: Month = ""
    limit: Limit = MAX_PAGE
    after: After = ""


class Usage(Record, frozen=True, omit_defaults=True):
    """The use of a month by client, up to the last day that was counted."""

    month: str
    clients: tuple[ClientUsage, ...]
    next: Next = ""


def _whose(context: Context, _: GetUsage) -> Target:
    """The use of the caller's whole client, or of all clients."""
    return Scope(context.identity.client_id) if context.identity.client_id else EVERYTHING


@operation(http="GET /usage", function=Function.MANAGE, action=Action.READ_USAGE, target=_whose)
def get_usage(context: Context, request: GetUsage) -> Usage:
    """List the questions and documents of a month by client. A caller with a client sees that of its client only.

    Each day is counted in the night after it. Raises `InvalidInputError` for an invalid `after`.
    """
    client_id = context.identity.client_id
    month = request.month or datetime.fromtimestamp(context.system.clock(), UTC).strftime("%Y-%m")
    if client_id:
        known = context.system.corpus.clients.get(client_id)
        since = known.since[:10] if known else ""  # a client that was removed and added again begins anew
        found = context.system.lifecycle.usage.of_month(month, client_id, since=since)
        return Usage(month, tuple(found))
    after = read_token(request.after, 1)
    clients, more = fitting(context.system.lifecycle.usage.of_month(month, after="".join(after)), request.limit)
    return Usage(month, clients, token(clients[-1].client_id or GLOBAL_KEY) if more else "")


class MeasureUsage(Request, frozen=True):
    day: Annotated[Text, Meta(description="A past day, such as 2026-11-24; left out, the last one (UTC).")] = ""


@operation(action=Action.ADMINISTER)
def measure_usage(context: Context, request: MeasureUsage) -> DayCount:
    """Count the use of a past day again. Stored documents are counted as they are now.

    Raises `InvalidInputError` for another day, and `StoreUnavailableError`.
    """
    return context.system.lifecycle.measure_usage(request.day)
