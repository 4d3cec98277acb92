"""Assigns our own questions to the halves `dev` and `test`.

Halves are drawn by document: all questions that a document answers best are in the same one, so that what was tuned on
`dev` has seen none of the documents that answer `test` best. A question without an answer is drawn by its own id. The
salt was chosen once, before anything was measured, so that no kind of question falls into one half alone.
"""

from __future__ import annotations

from opx.domain.ids import stable_hash
from opx_quality.evaluation.datasets import LabelledQuestion

SPLITS = ("dev", "test")
SALT = "split 6"


def split_of(question: LabelledQuestion) -> str:
    """The half, by the document of the highest grade; of equal ones, the first that is labelled."""
    best = max(question.relevant.values(), default=0)
    drawn = next((page for page, grade in question.relevant.items() if grade == best), question.id)
    return SPLITS[int(stable_hash(SALT, drawn), 16) % 2]
