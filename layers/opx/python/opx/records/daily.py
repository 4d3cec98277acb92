"""Daily jobs for gaps: queries them again and counts them by owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from opx.records.capability import QuestionRecords
from opx.records.capability import check_gaps as query_again
from opx.records.gaps.listing import NOBODY, Owners, listed
from opx.records.gaps.log import MAX_CHECKED
from opx.retrieval.capability import Questions
from opx.runtime.metrics import Metric, Report

CHECK: Mapping[str, object] = {"task": "check_gaps"}
"""The scheduler's event for checking gaps."""

CHECK_SECONDS = 20.0
"""Time limit of a check, within the 30 seconds of the search function."""

AUTHORS = "authors"
"""Label for all owners outside the section `owners`: each name would be another billed metric."""


def is_check(event: object, context: object) -> bool:
    """True for a call of the scheduler. An agent's gateway, whose arguments a model chose, sets a client context."""
    return event == CHECK and getattr(context, "client_context", None) is None


def check_gaps(questions: Questions, records: QuestionRecords) -> dict[str, int]:
    """Query the open gaps of all scopes again, within `CHECK_SECONDS`. Without gaps, nothing is searched.

    Raises `StoreUnavailableError`.
    """
    found = query_again(records, questions, records.gaps.scopes(), MAX_CHECKED, seconds=CHECK_SECONDS)
    return {"asked": found.asked, "closed": len(found.closed), "left": found.left, "failed": found.failed}


def count_gaps(records: QuestionRecords, report: Report) -> dict[str, int]:
    """Report the number of open gaps by owner, zeros included. Reads all gaps, page by page.

    Raises `StoreUnavailableError`, and `KnowledgeConfigError`.
    """
    gaps = (gap for scope in records.gaps.scopes() for gap in records.gaps.gaps(scope))
    counts = Counter(_label(gap.owner, records.owners) for gap in listed(gaps, records.owners))
    for label in owner_labels(records.owners):
        report(Metric.OPEN_GAPS, float(counts[label]), owner=label)
    return {"gaps": sum(counts.values())}


def owner_labels(owners: Owners) -> tuple[str, ...]:
    """The values of the metric's dimension: the declared owners, all others, and nobody."""
    return tuple(dict.fromkeys((*map(_ascii, owners.names), AUTHORS, NOBODY)))


def _label(owner: str, owners: Owners) -> str:
    if not owner:
        return NOBODY
    return _ascii(owner) if owner in owners.names else AUTHORS


def _ascii(owner: str) -> str:
    """The owner in ASCII, as CloudWatch requires for the value of a dimension."""
    return owner.encode("ascii", "replace").decode()
