"""What an outcome makes of what is known of a document. Pure functions."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from opx.domain.outcomes import DocumentOutcomes, RecordedOutcome, Tally
from opx.domain.record import replace

log = logging.getLogger(__name__)

MAX_SECTIONS = 50
"""Of a document that have counts of their own; outcomes of others count for the document alone."""


def counted(
    known: DocumentOutcomes, told: RecordedOutcome, before: RecordedOutcome | None, title: str
) -> DocumentOutcomes:
    """What is known with `told`, in place of what was told `before` of the same. The first outcome of a later version has
    all others be of earlier ones."""
    if told.document_id != known.document_id and told.version >= known.version:
        known = replace(known.seen_from(told.document_id), version=told.version, title=title)
    now = told.document_id == known.document_id
    tally, sections = known.tally, dict(known.sections)
    if before is not None:
        tally = _without(tally, before)
        if before.section in sections:
            sections[before.section] = _without(sections[before.section], before)
    if told.section and _has_room(sections, told.section):
        sections[told.section] = sections.get(told.section, Tally()).moved(told.result, 1, now=now)
    tally = tally.moved(told.result, 1, now=now)
    at = max(known.updated_at, told.at)
    return replace(known, now=tally.now, earlier=tally.earlier, sections=sections, updated_at=at)


def _without(tally: Tally, before: RecordedOutcome) -> Tally:
    """Taken from where it is counted by now."""
    return tally.moved(before.result, -1, now=getattr(tally.now, before.result.value) > 0)


def _has_room(sections: Mapping[str, Tally], name: str) -> bool:
    if name in sections or len(sections) < MAX_SECTIONS:
        return True
    log.warning("a document has outcomes of %d sections: those of more count for the document alone", MAX_SECTIONS)
    return False
