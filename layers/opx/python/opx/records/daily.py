"""What is done about gaps every day: they are asked again, and counted by owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from opx.records.capability import check_gaps as ask_again
from opx.records.gaps.listing import NOBODY, listed
from opx.records.gaps.log import MAX_ASKED
from opx.runtime.metrics import Metric, Report

if TYPE_CHECKING:
    from opx.records.capability import QuestionRecords
    from opx.records.gaps.listing import Owners
    from opx.retrieval.capability import Questions

CHECK: Mapping[str, object] = {"task": "check_gaps"}
"""The event with which the scheduler has gaps asked again."""

CHECK_SECONDS = 20.0
"""Of the 30 that the function has which searches."""

AUTHORS = "authors"
"""Stands for all owners that are not in the section `owners`: each name would be a metric that is paid for."""


def is_check(event: object, context: object) -> bool:
    """Whether the scheduler calls. An agent's gateway sends arguments that a model chose, and says so in the context."""
    return event == CHECK and getattr(context, "client_context", None) is None


def check_gaps(questions: Questions, records: QuestionRecords) -> dict[str, int]:
    """Ask the open gaps of all scopes again, as long as there is time. Without gaps, nothing is searched.

    Raises `StoreUnavailableError`.
    """
    found = ask_again(records, questions, records.gaps.scopes(), MAX_ASKED, seconds=CHECK_SECONDS)
    return {"asked": found.asked, "closed": len(found.closed), "left": found.left, "failed": found.failed}


def count_gaps(records: QuestionRecords, report: Report) -> dict[str, int]:
    """Report how many gaps are open, by owner, also where none is. Reads all gaps, page by page.

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
    """CloudWatch takes no other characters in the value of a dimension."""
    return owner.encode("ascii", "replace").decode()
