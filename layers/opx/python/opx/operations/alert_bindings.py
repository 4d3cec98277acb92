"""Operations that cover alerts: importing their rules, binding and assigning them, and counting the use of runbooks.

A binding or an assignment is a document of alert rules that defines the one alert: it has versions, is withdrawn like
any document, and each query reads it as it is now.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from pathlib import PurePosixPath
from typing import Annotated

from opx.domain.knowledge import ALERT_RULES_CATEGORY
from opx.domain.policy import Action
from opx.domain.record import Record, about
from opx.domain.requests import Filled, FilledText, Request, RequestError, Text
from opx.graph.extraction.own_node import make_reference
from opx.graph.traversal import since_when
from opx.ingestion.object_names import object_name
from opx.operations.context import Context
from opx.operations.corpus import manager_of, object_key
from opx.operations.documents import find_by_id
from opx.operations.forms import checked_name
from opx.operations.registry import Function, operation
from opx.records.audit import scope_of

RULES_FOLDER, BINDINGS_FOLDER, OWNERS_FOLDER = "alert-rules", "alert-bindings", "alert-owners"
MAX_RULES_TEXT = 2 * 1024 * 1024
MAX_RULES = 2_000
"""Rules that a document can have."""

MAX_LOOKED_AT = 5000
"""Answers that a report of use considers."""


class ImportAlertRules(Request, frozen=True):
    name: Annotated[FilledText, about("The name of the file, which ends with .yaml, .yml, .json or .rules.")]
    rules: Annotated[Filled, about("The text of the file.", max_length=MAX_RULES_TEXT)]


class ImportedRules(Record, frozen=True):
    object_key: str
    alerts: Annotated[tuple[str, ...], about("Names of the alerts that it defines.")]
    problems: Annotated[tuple[str, ...], about("Rules that were left out, with the reason.")]


@operation(http="POST /alerts/rules", function=Function.MANAGE, status=202, action=Action.WRITE)
def import_alert_rules(context: Context, request: ImportAlertRules) -> ImportedRules:
    """Import a file of alert rules of Prometheus, Grafana, CloudWatch or Datadog: it becomes a document, and replaces the
    one of its name.

    Raises `InvalidInputError` for a file that has no rules or can't be read, with the line, and for one with more rules
    than a document can have.
    """
    from opx.formats.data.alert_rules import EXTENSIONS, UnreadableRulesError, read_rules

    name = checked_name(request.name)
    if PurePosixPath(name).suffix.lower() not in EXTENSIONS:
        raise RequestError(f"{name}: files of alert rules end with {', '.join(EXTENSIONS)}")
    data = request.rules.encode()
    try:
        found = read_rules(data)
    except UnreadableRulesError as exc:
        raise RequestError(f"{name}:{exc.line}: {exc}" if exc.line else f"{name}: {exc}") from exc
    if not found.rules:
        raise RequestError(f"{name}: it defines no alerts: it needs `groups` with `rules`, or a list `alerts`")
    if len(found.rules) > MAX_RULES:
        raise RequestError(
            f"{name}: it has {len(found.rules):,} rules, and a document can have {MAX_RULES:,}: `opx alerts import` splits it"
        )
    key = manager_of(context).put_document(
        ALERT_RULES_CATEGORY, data, {"name": name, "source": f"{RULES_FOLDER}/{name}"}
    )
    return ImportedRules(key, tuple(dict.fromkeys(one.name for one in found.rules)), tuple(found.problems))


class BindAlert(Request, frozen=True):
    alert: Annotated[FilledText, about("The name of the alert.")]
    document_id: Annotated[Text, about("The id of its runbook; empty ends the binding.")] = ""


class AssignAlert(Request, frozen=True):
    alert: Annotated[FilledText, about("The name of the alert.")]
    owner: Annotated[Text, about("A person or a team; empty for nobody.")] = ""


class AlertChange(Record, frozen=True):
    object_key: Annotated[str, about("The document that states it, which waits to be ingested or removed.")]
    removed: bool


@operation(http="POST /alerts/bindings", function=Function.MANAGE, status=202, action=Action.WRITE)
def bind_alert(context: Context, request: BindAlert) -> AlertChange:
    """Bind an alert to a runbook in the caller's scope, or end that.

    Raises `DocumentNotFoundError`, `InvalidInputError` for a document that is no runbook and for the name of no alert, and
    `HeldError`.
    """
    if not request.document_id:
        return _stated(context, BINDINGS_FOLDER, request.alert, {})
    document = find_by_id(context, request.document_id)
    found = context.system.graph.runbooks(context.reader).at(document.source)
    if found is None or found.key != document.key:
        raise RequestError(
            f"{document.title!r} can't be bound: it is not in a category of runbooks, or another page has its name"
        )
    return _stated(context, BINDINGS_FOLDER, request.alert, {"runbook": document.source})


@operation(http="POST /alerts/owners", function=Function.MANAGE, status=202, action=Action.WRITE)
def assign_alert(context: Context, request: AssignAlert) -> AlertChange:
    """Assign an alert to a person or a team in the caller's scope, or end that.

    Raises `InvalidInputError` for the name of no alert, and `HeldError`.
    """
    owner = request.owner.strip()
    return _stated(context, OWNERS_FOLDER, request.alert, {"owner": owner} if owner else {})


def _stated(context: Context, folder: str, alert: str, facts: dict[str, str]) -> AlertChange:
    """Puts the document that states facts of an alert, or removes it without facts."""
    name = alert.strip().removeprefix("alert:")
    reference = make_reference("alert", name)
    if not reference:
        raise RequestError(f"{name[:60]!r} is not the name of an alert")
    source = f"{folder}/{object_name(reference.partition(':')[2])}.json"
    manager = manager_of(context)
    if not facts:
        key = object_key(context, f"{ALERT_RULES_CATEGORY}/{source}")
        context.system.lifecycle.check_removal([key])
        manager.delete_object(key)
        return AlertChange(key, removed=True)
    data = json.dumps({"alerts": [{"name": name, **facts}]}, ensure_ascii=False).encode()
    title = f"{name}: {next(iter(facts))}"
    key = manager.put_document(ALERT_RULES_CATEGORY, data, {"source": source, "title": title})
    return AlertChange(key, removed=False)


# -- use of runbooks


class GetAlertUse(Request, frozen=True):
    since: Annotated[str, about("Answers since then: how long ago (12h, 1d, 2w), a day or a time.", max_length=40)] = (
        "30d"
    )


class PageUse(Record, frozen=True):
    document_id: str
    answered: Annotated[int, about("Number of questions whose answer had this document.")]


class AlertUse(Record, frozen=True):
    documents: tuple[PageUse, ...]
    looked_at: Annotated[int, about("Number of answers that were counted, the newest.")]
    more: Annotated[bool, about("True if there are more answers since then.")]


@operation(http="GET /alerts/use", action=Action.READ_AUDIT)
def get_alert_use(context: Context, request: GetAlertUse) -> AlertUse:
    """Count how often documents were in answers to questions of the caller's own scope, or of all scopes for operators."""
    scope = "" if context.sees_every_scope(Action.READ_AUDIT) else scope_of(context.identity)
    since = since_when(request.since, context.system.clock())
    records = list(islice(context.system.records.audit.records(scope, since=since), MAX_LOOKED_AT + 1))
    counted = records[:MAX_LOOKED_AT]
    counts = Counter(document for record in counted for document in {one.document_id for one in record.documents})
    found = tuple(PageUse(document, count) for document, count in counts.most_common())
    return AlertUse(found, len(counted), len(records) > MAX_LOOKED_AT)
