"""Open gaps, asked again: what is answered by now is closed."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import nlargest

from opx.domain.queries import Band, QueryConfig
from opx.domain.record import replace
from opx.domain.results import Answer, RetrievalResult
from opx.domain.scopes import Identity
from opx.errors import ConditionFailedError, InvalidInputError, StoreUnavailableError
from opx.records.gaps.log import GapLog
from opx.records.gaps.model import Gap, GapStatus

log = logging.getLogger(__name__)

MAX_ASKED = 50
"""Gaps that are asked again at once, those that matter most first."""

Ask = Callable[[Identity, str, QueryConfig], Answer]
"""Asks as a reader, unrecorded."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of a check. `left` are open gaps that were not asked for, `failed` those that could not be."""

    closed: tuple[Gap, ...] = ()
    asked: int = 0
    left: int = 0
    failed: int = 0


def check(
    gaps: GapLog, scopes: Iterable[str], ask: Ask, *, limit: int = MAX_ASKED, seconds: float = math.inf
) -> Checked:
    """Ask open gaps again, each as a reader of its own scope, and close those of which every wording has an answer now, or
    whose absent name has a page. None is begun after so many seconds.

    Raises `StoreUnavailableError` where the gaps themselves can't be read or written.
    """
    until = time.monotonic() + seconds
    found = [gap for scope in scopes for gap in gaps.gaps(scope) if gap.status is GapStatus.OPEN]
    wanted = nlargest(limit, found, key=lambda gap: (gap.weight, gap.gap_id))
    closed: list[Gap] = []
    failed = asked = 0
    for gap in wanted:
        if time.monotonic() > until:
            break
        asked += 1
        try:
            best = answering(gap, ask)
        except (StoreUnavailableError, InvalidInputError) as exc:  # a category of then may be gone
            log.warning("a gap can't be asked again: %s", exc)
            failed += 1
            continue
        if best is not None:
            closed.extend(_closed(gaps, gap, best))
    return Checked(tuple(closed), asked, len(found) - asked, failed)


def answering(gap: Gap, ask: Ask) -> RetrievalResult | None:
    """The best answer to the first wording if all wordings have one that is likely at least; else None. Of what was absent,
    the name alone is asked for, without filters. A gap that was reported had answers then: only what was updated since
    answers it."""
    asked = QueryConfig() if gap.absent else QueryConfig.from_json(gap.config)
    config = replace(asked, include_internet=False)
    identity = identity_of(gap.scope_key)
    wordings = [f"{gap.absent.kind} {gap.absent.name}"] if gap.absent else [one.text for one in gap.examples]
    best: RetrievalResult | None = None
    for text in wordings:
        answer = ask(identity, text, config)
        likely = (one for one in answer.results if one.confidence >= Band.LIKELY.least)
        found = [one for one in likely if not gap.missing or one.timestamp > gap.last_asked_at]
        if not found or answer.partial or (gap.absent and answer.absent):
            return None
        best = best or found[0]
    return best


def _closed(gaps: GapLog, gap: Gap, best: RetrievalResult) -> Iterable[Gap]:
    try:
        title = best.title or best.source
        yield gaps.settle(
            gap, GapStatus.CLOSED, because="a document answers it", closed_by=best.document_id, title=title
        )
    except ConditionFailedError:
        log.info("a gap was asked for again while it was checked: it stays open until the next check")


def identity_of(scope_key: str) -> Identity:
    """Who asks within a scope: `client:acme/project:shop`, `client:acme`, or `global`."""
    parts = dict(part.split(":", 1) for part in scope_key.split("/") if ":" in part)
    return Identity(parts.get("client", ""), parts.get("project", ""))
