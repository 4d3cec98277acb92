"""Rows of questions: gaps, marks of contradictions, and the audit log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opx.errors import InvalidInputError
from opx.ports import Item, KeyRange, Table
from opx.ports.holdings import HeldItems
from opx.ports.rows import RowKind, Rows, require_bytes, require_number, scope_key, whole
from opx.ports.tables import AUDIT, GAPS
from opx.records.audit import INSTALLATION, record_in
from opx.records.audit import SCOPES as AUDIT_SCOPES
from opx.records.dismissals import DISMISSED, DismissedMark, dismissed_partition
from opx.records.gaps.log import DROPPED, SCOPES
from opx.records.gaps.model import from_item, status_key

# -- gaps


def _gap(item: Item) -> Mapping[str, Any]:
    if not item["texts"]:
        raise InvalidInputError("a gap without a question")
    gap = from_item(item)
    return {"scopeKey": scope_key(gap.scope_key), "statusKey": status_key(gap)}


def _dropped(item: Item) -> Mapping[str, Any]:
    require_number(item["count"], "count")
    return {"gapId": scope_key(item["gapId"])}


def _key(item: Item) -> Mapping[str, Any]:
    if len(require_bytes(item["key"], "key")) < 16:
        raise InvalidInputError("key is too short")
    return {"gapId": "key"}


def _mark(item: Item) -> Mapping[str, Any]:
    whole(DismissedMark, item)
    return {"scopeKey": dismissed_partition(scope_key(item["scopeKey"].removeprefix(DISMISSED)))}


def _scopes(table: Table, begins_with: str) -> Iterator[str]:
    where = KeyRange(begins_with=begins_with)
    return (item["gapId"] for partition in (SCOPES, DROPPED) for item in table.query(partition, where=where))


def _items(table: Table, held: HeldItems) -> Iterator[Item]:
    for scope in held.scopes:
        yield from table.query(scope)
    for scope in held.scopes:
        yield from table.query(dismissed_partition(scope))
    yield from table.get_many(
        [{"scopeKey": partition, "gapId": scope} for partition in (DROPPED, SCOPES) for scope in held.scopes]
    )


GAP_ROWS = Rows(
    table=GAPS,
    name="gaps",
    kinds=(
        RowKind(lambda item: item["scopeKey"] == SCOPES, lambda item: {"gapId": scope_key(item["gapId"])}),
        RowKind(lambda item: item["scopeKey"] == DROPPED, _dropped),
        RowKind(
            lambda item: not item["scopeKey"].startswith("#"),
            _gap,
            {**dict.fromkeys(("texts", "termsKeys", "models"), list[str]), "signs": list[bytes]},
            expires=True,
            times=("firstAskedAt", "lastAskedAt", "closedAt"),
        ),
        RowKind(lambda item: item["scopeKey"].startswith(DISMISSED), _mark, times=("at",)),
        RowKind(lambda item: item["scopeKey"] == INSTALLATION, _key),
    ),
    scopes=_scopes,
    items=_items,
)


# -- the audit log


def _audited(item: Item) -> Mapping[str, Any]:
    record = record_in(item)
    return {"receiptId": record.receipt_id, "who": scope_key(record.who), "askedAt": record.asked_at}


def _audited_scope(item: Item) -> Mapping[str, Any]:
    return {
        "receiptId": f"{AUDIT_SCOPES} {item['askedAt']}",
        "who": AUDIT_SCOPES,
        "askedAt": scope_key(item["askedAt"]),
    }


def _audited_scopes(table: Table, begins_with: str) -> Iterator[str]:
    where = KeyRange(begins_with=begins_with)
    return (item["askedAt"] for item in table.query(AUDIT_SCOPES, index="who-askedAt-index", where=where))


def _audit_items(table: Table, held: HeldItems) -> Iterator[Item]:
    """Audit records by scope of a project or client. The principal is no key: several clients may have the same."""
    for scope in held.scopes:
        yield from table.query(scope, index="who-askedAt-index")
    yield from table.get_many([{"receiptId": f"{AUDIT_SCOPES} {scope}"} for scope in held.scopes])


AUDIT_ROWS = Rows(
    table=AUDIT,
    name="audit records",
    kinds=(
        RowKind(lambda item: item["who"] == AUDIT_SCOPES, _audited_scope),
        RowKind(lambda item: not item["who"].startswith("#"), _audited, expires=True, times=("askedAt",)),
    ),
    scopes=_audited_scopes,
    items=_audit_items,
)

ROWS = (GAP_ROWS, AUDIT_ROWS)
