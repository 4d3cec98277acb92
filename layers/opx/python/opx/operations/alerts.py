"""Operations on alerts: list known alerts with their runbooks."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from opx.domain.graph import Edge
from opx.domain.knowledge import ALERT_RULES_CATEGORY
from opx.domain.outcomes import Counts
from opx.domain.record import Record, about, replace
from opx.domain.requests import Request
from opx.graph.bindings import Bindings, Bound, BoundBy
from opx.operations.context import Context
from opx.operations.documents import documents_within
from opx.operations.paging import After, Next, read_token, token
from opx.operations.registry import operation

MAX_ALERTS = 200
"""Alerts of a page: each costs a few reads of the graph."""


class Binding(StrEnum):
    """Relation of an alert to its runbook. BOUND: there is a runbook for it. SEVERAL: several pages have its name.
    LEADS_NOWHERE: its rule names a runbook that isn't in the corpus. NAMES_NONE: its rule names none, and no page has its
    name or declares that it handles it."""

    BOUND = "bound"
    SEVERAL = "several pages are called so"
    LEADS_NOWHERE = "leads nowhere"
    NAMES_NONE = "names none"


class RuledRunbook(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A runbook that one of several rules of an alert names."""

    labels: Annotated[dict[str, str], about("The labels that alerts of this rule have.")]
    runbook: str
    document_id: Annotated[str, about("The page at this address, empty for none.")] = ""
    title: str = ""
    path: str = ""


class KnownAlert(Record, frozen=True, kw_only=True, omit_defaults=True):
    """An alert that a rule defines, a page is for, or that fired."""

    reference: Annotated[str, about("The alert in the graph.")]
    name: Annotated[str, about("Its name as written.")]
    severity: str = ""
    summary: str = ""
    runbook: Annotated[str, about("The path or the address of its runbook that its rule names.")] = ""
    runbooks: Annotated[tuple[RuledRunbook, ...], about("The runbooks that its rules name, if they differ.")] = ()
    binding: Binding
    bound_by: Annotated[
        BoundBy | None, about("By the address that its rule names, by the page's title or name, or by its text.")
    ] = None
    document_id: Annotated[str, about("Its runbook.")] = ""
    title: str = ""
    path: Annotated[str, about("The runbook's name in the corpus.")] = ""
    candidates: Annotated[
        tuple[str, ...], about("Names of the pages with its name, if it is bound to none of them.")
    ] = ()
    rules: Annotated[tuple[str, ...], about("Names of the files that define it.")] = ()
    firings: Annotated[int, about("Number of its firings in the graph.")] = 0
    last_fired: str = ""
    owner: Annotated[str, about("The person or team that it is assigned to.")] = ""
    resolved: Annotated[int, about("Outcomes of its runbook that the caller sees.")] = 0
    no_effect: int = 0
    made_worse: int = 0


class ListAlerts(Request, frozen=True):
    unbound: Annotated[bool, about("Only those without a runbook.")] = False
    limit: Annotated[int, about("Maximum number of alerts that a page considers.", ge=1, le=MAX_ALERTS)] = MAX_ALERTS
    after: After = ""


class AlertPage(Record, frozen=True, omit_defaults=True):
    """A page of alerts by name. With `unbound` it may have none, although there are more."""

    alerts: tuple[KnownAlert, ...]
    next: Next = ""


@operation(http="GET /alerts")
def list_alerts(context: Context, request: ListAlerts) -> AlertPage:
    """List known alerts by name, each with its runbook and number of firings.

    Raises `InvalidInputError` for an invalid `after`.
    """
    (after,) = read_token(request.after, 1) or ("",)
    keys = _keys(context, after, request.limit + 1)
    known = alerts_of(context, _things(context, keys[: request.limit]))
    shown = tuple(one for one in known if not (request.unbound and one.binding is Binding.BOUND))
    return AlertPage(shown, token(keys[request.limit - 1]) if len(keys) > request.limit else "")


def alerts_of(context: Context, references: list[str]) -> list[KnownAlert]:
    """The alerts with these references; unknown ones are left out."""
    bindings = context.system.graph.bindings(context.reader, references)
    known = [key for key in references if key in bindings.nodes]
    if not known:
        return []
    pages, firings, files = bindings.pages(), bindings.firings(), _rule_files(context)
    found = {key: _known(bindings, key, pages[key], firings.get(key, []), files) for key in known}
    counts = outcomes_of(context, {bound[0].document.key.id for bound in pages.values() if bound})
    return [_judged(found[key], counts.get(pages[key][0].document.key.id) if pages[key] else None) for key in known]


def _judged(alert: KnownAlert, counts: Counts | None) -> KnownAlert:
    """The alert with the outcomes of its runbook, if there are any."""
    if counts is None:
        return alert
    return replace(alert, resolved=counts.resolved, no_effect=counts.no_effect, made_worse=counts.made_worse)


def outcomes_of(context: Context, key_ids: set[str]) -> dict[str, Counts]:
    """Outcomes of documents that the caller sees, by the ids of their keys."""
    heads = context.system.learning.outcome_store.heads(context.reader.visible, sorted(key_ids))
    found: dict[str, Counts] = {}
    for _, key_id, head in heads:
        found[key_id] = found.get(key_id, Counts()) + head.tally.all
    return found


def _known(bindings: Bindings, key: str, pages: list[Bound], fired: list[Edge], files: dict[str, str]) -> KnownAlert:
    node, location = bindings.nodes[key], bindings.location_of(key)
    bound = pages[0] if pages else None
    candidates = [] if bound else bindings.called(key)
    unbound = Binding.SEVERAL if candidates else Binding.LEADS_NOWHERE if location else Binding.NAMES_NONE
    return KnownAlert(
        reference=key,
        name=str(node.properties.get("name", "")) or key.partition(":")[2],
        severity=str(node.properties.get("severity", "")),
        summary=str(node.properties.get("summary", "")),
        runbook=location,
        runbooks=tuple(_runbooks(bindings, key)),
        binding=Binding.BOUND if bound else unbound,
        bound_by=bound.by if bound else None,
        document_id=bound.document.document_id if bound else "",
        title=bound.document.title if bound else "",
        path=bound.document.source if bound else "",
        candidates=tuple(sorted(one.source for one in candidates)),
        rules=tuple(sorted({files[str(one.key_id)] for one in node.evidence if one.key_id in files})),
        firings=len(fired),
        last_fired=max((edge.at for edge in fired), default=""),
        owner=str(node.properties.get("owner", "")),
    )


def _runbooks(bindings: Bindings, key: str) -> Iterator[RuledRunbook]:
    rules = bindings.rules_of(key)
    if len({rule.location for rule in rules}) < 2:
        return
    for rule in rules:
        page = bindings.page_of(rule)
        yield RuledRunbook(
            labels=dict(rule.labels),
            runbook=rule.location,
            document_id=page.document_id if page else "",
            title=page.title if page else "",
            path=page.source if page else "",
        )


def _rule_files(context: Context) -> dict[str, str]:
    """The names of the files of rules that the caller may see, by the ids of their keys."""
    if ALERT_RULES_CATEGORY not in context.system.installation.knowledge.categories:
        return {}
    return {one.key.id: one.source for one in documents_within(context, [ALERT_RULES_CATEGORY])}


def _keys(context: Context, after: str, limit: int) -> list[str]:
    """References of alerts as documents write them, after `after`."""
    store = context.system.graph.store
    return [node.key for node in store.of_type(context.reader.visible, "alert", after=after, limit=limit)]


def _things(context: Context, keys: list[str]) -> list[str]:
    """Canonical references of these alerts; aliases of an alert that is listed itself are left out."""
    meant = context.system.graph.seen_by(context.identity).existing(keys)
    by_itself = context.system.graph.store.existing(context.reader.visible, sorted(set(meant.values())))
    return list(
        dict.fromkeys(meant[key] for key in keys if key in meant and (meant[key] == key or meant[key] not in by_itself))
    )
