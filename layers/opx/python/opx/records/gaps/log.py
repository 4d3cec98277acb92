"""The gaps of every scope, in the table of gaps: each scope's in a partition of its own."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import nlargest

from opx.domain.ids import beginning_so, iso_time, stable_hash
from opx.domain.queries import Band, QueryConfig
from opx.domain.record import replace
from opx.domain.results import Answer, RetrievalResult
from opx.domain.scopes import Identity
from opx.errors import ConditionFailedError, InvalidInputError, StoreUnavailableError
from opx.ports import Clock, Equals, Item, KeyAbsent, Table
from opx.records.gaps.model import Gap, GapStatus, Wording, from_item, to_item

# -- checking


MAX_ASKED = 50
"""Gaps that are asked again at once, those that matter most first."""

Ask = Callable[[Identity, str, QueryConfig], Answer]
"""Asks as a reader, unrecorded."""


@dataclass(frozen=True, slots=True)
class GapChecks:
    """What came of a check. `left` are open gaps that were not asked for, `failed` those that could not be."""

    closed: tuple[Gap, ...] = ()
    asked: int = 0
    left: int = 0
    failed: int = 0


def check(
    gaps: GapLog, scopes: Iterable[str], ask: Ask, *, limit: int = MAX_ASKED, seconds: float = math.inf
) -> GapChecks:
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
    return GapChecks(tuple(closed), asked, len(found) - asked, failed)


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


# -- log


log = logging.getLogger(__name__)

MAX_GAPS = 1000
"""Of a scope. What comes then takes the place of a closed one, else of what was asked least and longest ago."""

_ATTEMPTS = 100
"""Each failed one means that another writer got through."""

SCOPES, DROPPED = "#scopes", "#dropped"
_DAY_SECONDS = 86_400


class GapLog:
    """Gaps are kept for `days` after they were asked last."""

    def __init__(self, table: Table, *, days: int, clock: Clock, most: int = MAX_GAPS) -> None:
        self._table = table
        self._days = days
        self._clock = clock
        self._most = most
        self._known: set[str] = set()

    def add(self, asked: Gap) -> Gap:
        """Count a question in: with the gap that asks for the same, or as a gap of its own. Returns that.

        Of writers at the same time none is lost. Raises `StoreUnavailableError`.
        """
        found = asked.gap_id
        if self._table.get({"scopeKey": asked.scope_key, "gapId": found}) is None:  # else no other needs to be read
            gaps = list(self.gaps(asked.scope_key))
            alike = _most_alike(gaps, asked)
            if alike is None and self._is_first(asked, gaps):
                return asked
            found = alike.gap_id if alike else found
        return self._change(asked.scope_key, found, lambda gap: gap.asked_again(asked) if gap else asked)

    def _is_first(self, asked: Gap, gaps: list[Gap]) -> bool:
        """Keep a gap of its own; False if somebody else has just asked the same."""
        self._make_room(gaps)
        self._note_scope(asked.scope_key)
        try:
            self._table.put(self._item(asked), condition=KeyAbsent())
        except ConditionFailedError:
            return False
        return True

    def gaps(self, scope_key: str) -> Iterator[Gap]:
        """All of a scope, by id."""
        return map(from_item, self._table.query(scope_key))

    def scopes(self) -> list[str]:
        """The scopes that have or had gaps."""
        return [str(item["gapId"]) for item in self._table.query(SCOPES)]

    def dropped(self, scope_key: str) -> int:
        """How many gaps of a scope had to make room."""
        item = self._table.get({"scopeKey": DROPPED, "gapId": scope_key})
        return int(item["count"]) if item else 0

    def settle(self, gap: Gap, status: GapStatus, *, because: str = "", closed_by: str = "", title: str = "") -> Gap:
        """Close, ignore or open a gap. Raises `ConditionFailedError` if it was changed since it was read."""
        settled = replace(
            gap,
            status=status,
            because=because,
            closed_by=closed_by,
            closed_by_title=title,
            closed_at=iso_time(self._clock()) if status is not GapStatus.OPEN else "",
            revision=gap.revision + 1,
        )
        self._table.put(self._item(settled), condition=Equals("revision", gap.revision))
        return settled

    def _change(self, scope_key: str, gap_id: str, change: Callable[[Gap | None], Gap]) -> Gap:
        for _ in range(_ATTEMPTS):
            item = self._table.get({"scopeKey": scope_key, "gapId": gap_id})
            changed = change(from_item(item) if item else None)
            try:
                self._table.put(
                    self._item(changed), condition=Equals("revision", item["revision"]) if item else KeyAbsent()
                )
            except ConditionFailedError:
                continue
            return changed
        raise StoreUnavailableError(f"gap {gap_id} can't be changed: too many others do at the same time")

    def _make_room(self, gaps: list[Gap]) -> None:
        surplus = len(gaps) + 1 - self._most
        if surplus <= 0:
            return
        gaps.sort(key=lambda gap: (gap.status is not GapStatus.CLOSED, gap.count, gap.last_asked_at, gap.gap_id))
        for gap in gaps[:surplus]:
            self._table.delete({"scopeKey": gap.scope_key, "gapId": gap.gap_id})
            if gap.status is not GapStatus.CLOSED:
                self._note_dropped(gap.scope_key)

    def _note_dropped(self, scope_key: str) -> None:
        log.warning("a scope has %d gaps, as many as are kept: one was dropped", self._most)
        self._table.put({"scopeKey": DROPPED, "gapId": scope_key, "count": self.dropped(scope_key) + 1})

    def _note_scope(self, scope_key: str) -> None:
        if scope_key not in self._known:
            self._table.put({"scopeKey": SCOPES, "gapId": scope_key})
            self._known.add(scope_key)

    def _item(self, gap: Gap) -> Item:
        return to_item(gap, int(self._clock()) + self._days * _DAY_SECONDS)


def gap_id(scope_key: str, wording: Wording, named: tuple[str, ...]) -> str:
    """The same for the same words, so that who asks them at the same time finds the other's gap."""
    return stable_hash("gap", scope_key, wording.terms_key, list(named))


def absent_gap_id(scope_key: str, name: str) -> str:
    """The same for the same absent name, however the rest of the question is worded."""
    return stable_hash("absent", scope_key, name.casefold())


def the_gap(gaps: Iterator[Gap], wanted: str) -> Gap:
    """The only one whose id begins so. Raises `InvalidInputError`."""
    found = beginning_so(wanted, gaps, lambda gap: f"{gap.gap_id}  {gap.last_asked_at}", kind="gaps")
    if found is None:
        raise InvalidInputError(f"no gap has an id that begins with {wanted!r}; `opx gaps --all` lists them")
    return found


def _most_alike(gaps: list[Gap], asked: Gap) -> Gap | None:
    rated = [(gap.likeness(asked), gap) for gap in gaps]
    likeness, found = max(rated, key=lambda each: (each[0], each[1].gap_id), default=(-1.0, None))
    return found if likeness >= 0 else None
