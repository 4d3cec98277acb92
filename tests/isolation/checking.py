"""Checks tenant isolation: the properties of every reply, for each case of world, reader and operation."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opx.domain.scopes import Identity
from opx.errors import OpxError
from opx.ports import Item
from opx.ports.tables import ALIASES, LIFECYCLE, OUTCOMES, PROJECTS
from tests.isolation.observing import Operation, ReaderAccess, plain, without
from tests.isolation.systems import Observed
from tests.isolation.worlds import found_in
from tests.support.fakes import Measured

SAME_SCORE = 1e-4
"""Scores are computed in single precision from numbers that differ."""

IDS = ("documentId", "receiptId", "failureId", "gapId", "place", "id")
"""Unguessable attributes: hashes or random, of 128 bits. In the graph, only partition keys of documents are."""

_OF_DOCUMENTS = "refs#"


JUDGED = frozenset({"search", "research", "gaps", "settle_gap", "audit_records", "audit_record"})
"""Their replies have scores, or depend on what scores were."""

UNCOUNTED = frozenset({PROJECTS.name, ALIASES.name, OUTCOMES.name, LIFECYCLE.name})
"""Tables whose reads are not counted: a client may know of its own entries; the aliases and outcomes of a scope are cached
for all readers of that scope, and the state of the index for all readers, so that only the first query reads them."""


@dataclass(slots=True)
class Seen:
    """Reply, logs and metrics of one operation, with the rows and calls behind it. `metrics`: the labels of each
    measurement, sorted, as concurrent searches report in any order."""

    operation: str
    reply: Any
    rows: list[tuple[str, Item]]
    calls: list[str]
    logs: list[str] = field(default_factory=list)
    metrics: dict[str, list[dict[str, str]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Leak:
    """A violated property in one case, with its evidence."""

    prop: str
    identity: Identity
    operation: str
    shown: str


def seen(observed: Observed, identity: Identity, operation: Operation) -> Seen:
    observed.names.begin(str(operation))
    observed.reads.clear()
    observed.measured = Measured()
    with _logged() as logs:
        try:
            reply = plain(operation.run(ReaderAccess(observed, identity)))
        except OpxError as exc:
            reply = {"error": type(exc).__name__, "text": str(exc)}
    metrics = {metric.name: sorted(labels, key=str) for metric, labels in observed.measured.labels.items()}
    reads = observed.reads
    return Seen(operation.name, without(reply, observed.home), list(reads.rows), list(reads.calls), logs, metrics)


def leaks(
    full: Seen, known: Seen, identity: Identity, operation: Operation, secrets: Set[str], *, exact: bool
) -> Iterator[Leak]:
    """Compares the reply of the full system with that of a system without data invisible to the reader. Not `exact`: the
    service's scores count the words of all tenants, so that only the documents of scored replies are compared."""
    secrets = {secret for secret in secrets if secret not in operation.given}
    checks = {
        "reply names a secret": found_in(str(full.reply), secrets),
        "log or metric names a secret": found_in(f"{full.logs} {full.metrics}", secrets),
        "reply differs": list(_differences(*((full.reply, known.reply) if exact else map(_unscored, (full, known))))),
        "metrics differ": list(_differences(full.metrics, known.metrics)),
        "a row of others is read": found_in(str(_not_named(full, operation)), secrets),
        "other rows are read": list(_differences(_counted(full, operation), _counted(known, operation))),
        "other calls of stores": list(_differences(_store_calls(full), _store_calls(known))),
    }
    for name, shown in checks.items():
        if shown:
            yield Leak(name, identity, str(operation), str(shown[:5]))


def _unscored(found: Seen) -> Any:
    """The reply without the influence of scores: the documents of an unlimited query, or else nothing."""
    if found.operation not in JUDGED:
        return found.reply
    results = found.reply.get("results", ()) if isinstance(found.reply, dict) else ()
    everything = results and found.reply["receipt"]["config"]["minConfidence"] == 0
    return sorted(str(one["metadata"]["documentId"]) for one in results) if everything else None


def _not_named(found: Seen, operation: Operation) -> list[tuple[str, Item]]:
    """Rows that were not read by an id in the reader's request or reply."""
    had = f"{operation.given} {found.reply}"
    return [(table, item) for table, item in found.rows if not any(_id(item, name) in had for name in IDS)]


def _id(item: Item, name: str) -> str:
    return str(item.get(name, "\0")).removeprefix(_OF_DOCUMENTS)


def _counted(found: Seen, operation: Operation) -> dict[str, int]:
    """Number of rows read from each counted table."""
    return dict(Counter(table for table, _ in _not_named(found, operation) if table not in UNCOUNTED))


def _store_calls(found: Seen) -> list[str]:
    """Calls of the counted tables, in no order: searches of a research run at once."""
    return sorted(call for call in found.calls if call.split()[0] not in UNCOUNTED)


def _differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted(one.keys() | other.keys()):
            yield from _differences(one.get(name), other.get(name), f"{path}/{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (first, second) in enumerate(zip(one, other, strict=True)):
            yield from _differences(first, second, f"{path}/{number}")
    elif isinstance(one, float) and isinstance(other, float):
        if abs(one - other) > SAME_SCORE:
            yield f"{path}: {one} here, {other} there"
    elif one != other:
        yield f"{path}: {str(one)[:200]} here, {str(other)[:200]} there"


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def _logged() -> Iterator[list[str]]:
    handler, logger = _Lines(), logging.getLogger("opx")
    logger.addHandler(handler)
    try:
        yield handler.lines
    finally:
        logger.removeHandler(handler)
