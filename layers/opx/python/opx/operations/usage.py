"""Operations on the use of clients: questions and documents of a month, and the costs that are estimated from them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from opx.domain.policy import EVERYTHING, Action, Target
from opx.domain.prices import PRICES_DATE
from opx.domain.record import Record, about
from opx.domain.requests import Request, Text
from opx.domain.scopes import GLOBAL_KEY, Scope
from opx.lifecycle.cost_estimate import LEFT_OUT, MonthCosts, Rates, UsedMonth
from opx.lifecycle.usage import ClientUsage, DayCount
from opx.operations.context import Context
from opx.operations.paging import MAX_PAGE, After, Limit, Next, fitting, read_token, token
from opx.operations.registry import Function, operation

_MONTH = "%Y-%m"
Month = Annotated[
    str, about("Such as 2026-11; left out, the current one (UTC).", pattern=r"^(\d{4}-(0[1-9]|1[0-2]))?$")
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
    month = request.month or _today(context).strftime(_MONTH)
    if client_id:
        known = context.system.corpus.clients.get(client_id)
        since = known.since[:10] if known else ""  # a client that was removed and added again begins anew
        found = context.system.lifecycle.usage.of_month(month, client_id, since=since)
        return Usage(month, tuple(found))
    after = read_token(request.after, 1)
    clients, more = fitting(context.system.lifecycle.usage.of_month(month, after="".join(after)), request.limit)
    return Usage(month, clients, token(clients[-1].client_id or GLOBAL_KEY) if more else "")


def _today(context: Context) -> datetime:
    return datetime.fromtimestamp(context.system.clock(), UTC)


class GetCosts(Request, frozen=True):
    limit: Limit = MAX_PAGE


class Costs(Record, frozen=True, kw_only=True):
    """Estimates of two months. `is_billed` is False for a system on this machine, whose costs are 0: AWS bills nothing for
    it."""

    is_billed: bool
    prices_of: Annotated[str, about("Month of the prices, which are those of us-east-1 in US dollars.")]
    left_out: Annotated[tuple[str, ...], about("What the estimates don't contain.")]
    budget: Annotated[int, about("Dollars a month that the deployment names as its budget; 0 for none.")]
    months: Annotated[tuple[MonthCosts, ...], about("This month so far, then the one before.")]


@operation(http="GET /costs", function=Function.MANAGE, action=Action.WATCH)
def get_costs(context: Context, request: GetCosts) -> Costs:
    """Estimate the costs of this month so far and of the last one, by service and by client.

    From the use that was counted each night, with the formulas of the documentation. For callers without a client.
    """
    settings, usage = context.system.settings, context.system.lifecycle.usage
    rates = Rates.of(settings.backend, settings.embedding_model, settings.search_generation)
    today = _today(context)
    names = [one.strftime(_MONTH) for one in (today, today.replace(day=1) - timedelta(days=1))]
    months = (UsedMonth.of(month, usage.days_of(month)).costs(rates, request.limit) for month in names)
    return Costs(
        is_billed=rates.is_billed,
        prices_of=PRICES_DATE,
        left_out=LEFT_OUT,
        budget=settings.monthly_budget,
        months=tuple(months),
    )


class MeasureUsage(Request, frozen=True):
    day: Annotated[Text, about("A past day, such as 2026-11-24; left out, the last one (UTC).")] = ""


@operation(action=Action.ADMINISTER)
def measure_usage(context: Context, request: MeasureUsage) -> DayCount:
    """Count the use of a past day again. Stored documents are counted as they are now.

    Raises `InvalidInputError` for another day, and `StoreUnavailableError`.
    """
    return context.system.lifecycle.measure_usage(request.day)
