"""Operations on alerts: list those that are known, with the runbook that each is bound to."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from opx.domain.graph import Edge
from opx.domain.record import Record
from opx.operations.bindings import Bindings
from opx.operations.context import Context
from opx.operations.paging import After, Next, read_token, token
from opx.operations.registry import operation
from opx.operations.requests import Request

MAX_ALERTS = 200
"""Of a page: each costs a few reads of the graph."""


class Binding(StrEnum):
    """BOUND: there is a runbook for it. LEADS_NOWHERE: its rule names one that isn't here. NAMES_NONE: its rule names none,
    and no page says that it is for it."""

    BOUND = "bound"
    LEADS_NOWHERE = "leads nowhere"
    NAMES_NONE = "names none"


class KnownAlert(Record, frozen=True, kw_only=True, omit_defaults=True):
    """An alert that a rule defines, a page is for, or that fired."""

    reference: Annotated[str, Meta(description="The alert in the graph.")]
    name: Annotated[str, Meta(description="As it is written.")]
    severity: str = ""
    summary: str = ""
    runbook: Annotated[str, Meta(description="The path or the address of its runbook that its rule names.")] = ""
    binding: Binding
    document_id: Annotated[str, Meta(description="The runbook that it is bound to.")] = ""
    title: str = ""
    path: Annotated[str, Meta(description="The runbook's name in the corpus.")] = ""
    firings: Annotated[int, Meta(description="How often it fired, as far as the graph has it.")] = 0
    last_fired: str = ""


class ListAlerts(Request, frozen=True):
    unbound: Annotated[bool, Meta(description="Only those without a runbook.")] = False
    limit: Annotated[int, Meta(ge=1, le=MAX_ALERTS, description="How many alerts are looked at for a page.")] = (
        MAX_ALERTS
    )
    after: After = ""


class AlertPage(Record, frozen=True, omit_defaults=True):
    """A page of alerts by name. With `unbound` it may have none, although there are more."""

    alerts: tuple[KnownAlert, ...]
    next: Next = ""


@operation(http="GET /alerts")
def list_alerts(context: Context, request: ListAlerts) -> AlertPage:
    """Alerts that are known, by name, each with its runbook and how often it fired.

    Raises `InvalidInputError` for an `after` that is the end of no page.
    """
    (after,) = read_token(request.after, 1) or ("",)
    keys = _keys(context, after, request.limit + 1)
    known = alerts_of(context, _things(context, keys[: request.limit]))
    shown = tuple(one for one in known if not (request.unbound and one.binding is Binding.BOUND))
    return AlertPage(shown, token(keys[request.limit - 1]) if len(keys) > request.limit else "")


def alerts_of(context: Context, references: list[str]) -> list[KnownAlert]:
    """The alerts with these references; those that aren't there are left out."""
    bindings = Bindings(context, references)
    documents, firings = bindings.documents(), bindings.firings()
    found = []
    for key in references:
        if key not in bindings.nodes:
            continue
        properties, fired = bindings.nodes[key].properties, firings.get(key, [])
        document = next(iter(documents[key]), None)
        unbound = Binding.LEADS_NOWHERE if bindings.place_of(key) else Binding.NAMES_NONE
        found.append(
            KnownAlert(
                reference=key,
                name=str(properties.get("name", "")) or key.partition(":")[2],
                severity=str(properties.get("severity", "")),
                summary=str(properties.get("summary", "")),
                runbook=bindings.place_of(key),
                binding=Binding.BOUND if document else unbound,
                document_id=document.document_id if document else "",
                title=document.title if document else "",
                path=document.source if document else "",
                firings=len(fired),
                last_fired=_last(fired),
            )
        )
    return found


def _last(firings: list[Edge]) -> str:
    return max((edge.at for edge in firings), default="")


def _keys(context: Context, after: str, limit: int) -> list[str]:
    """References of alerts as documents write them, behind `after`."""
    store = context.system.graph.store
    return [node.key for node in store.of_type(context.reader.visible, "alert", after=after, limit=limit)]


def _things(context: Context, keys: list[str]) -> list[str]:
    """The alerts that these references mean; other names of an alert that is listed by itself are left out."""
    meant = context.system.graph.seen_by(context.identity).existing(keys)
    by_itself = context.system.graph.store.existing(context.reader.visible, sorted(set(meant.values())))
    return list(
        dict.fromkeys(meant[key] for key in keys if key in meant and (meant[key] == key or meant[key] not in by_itself))
    )
