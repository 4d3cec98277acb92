"""Stores gaps, one partition per scope, and checks whether open gaps have an answer now."""

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
from opx.ports.tables import put_if, readable
from opx.records.gaps.model import Gap, GapStatus, Wording, from_item, to_item

log = logging.getLogger(__name__)


# -- checking


MAX_CHECKED = 50
"""Limit of gaps per check, by weight."""

Search = Callable[[Identity, str, QueryConfig], Answer]
"""Searches as a reader, unrecorded."""


@dataclass(frozen=True, slots=True)
class GapChecks:
    """Outcome of a check: closed gaps, number of queried ones, of open ones `left` for another check, and of failures."""

    closed: tuple[Gap, ...] = ()
    asked: int = 0
    left: int = 0
    failed: int = 0


def check(
    gaps: GapLog, scopes: Iterable[str], search: Search, *, limit: int = MAX_CHECKED, seconds: float = math.inf
) -> GapChecks:
    """Query open gaps again, each as a reader of its own scope, and close those of which every wording has an answer now,
    or whose absent name has a page. No query is started after `seconds`.

    Raises `StoreUnavailableError` if the gaps themselves can't be read or written.
    """
    until = time.monotonic() + seconds
    found = [gap for scope in scopes for gap in gaps.gaps(scope) if gap.status is GapStatus.OPEN]
    wanted = nlargest(limit, found, key=lambda gap: (gap.weight, gap.gap_id))
    closed: list[Gap] = []
    failed = queried = 0
    for gap in wanted:
        if time.monotonic() > until:
            break
        queried += 1
        try:
            best = answering(gap, search)
        except (StoreUnavailableError, InvalidInputError) as exc:  # a category of the recorded filter may be gone
            log.warning("a gap can't be queried again: %s", exc)
            failed += 1
            continue
        if best is not None:
            closed.extend(_closed(gaps, gap, best))
    return GapChecks(tuple(closed), queried, len(found) - queried, failed)


def answering(gap: Gap, search: Search) -> RetrievalResult | None:
    """The best answer to the first wording if every wording has one that is at least likely; else None. For an absent
    identifier, only its name is queried, without filters. A gap that was reported had answers then: only documents updated
    since close it."""
    recorded = QueryConfig() if gap.absent else QueryConfig.from_json(gap.config)
    config = replace(recorded, include_internet=False)
    identity = identity_of(gap.scope_key)
    wordings = [f"{gap.absent.kind} {gap.absent.name}"] if gap.absent else [one.text for one in gap.examples]
    best: RetrievalResult | None = None
    for text in wordings:
        answer = search(identity, text, config)
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
        log.info("a gap was counted again while it was checked: it stays open until the next check")


def identity_of(scope_key: str) -> Identity:
    """The identity of a scope key: `client:acme/project:shop`, `client:acme`, or `global`."""
    parts = dict(part.split(":", 1) for part in scope_key.split("/") if ":" in part)
    return Identity(parts.get("client", ""), parts.get("project", ""))


# -- store


MAX_GAPS = 1000
"""Limit of gaps per scope. A further one replaces a closed one, or else the least frequent and oldest."""

_ATTEMPTS = 100
"""Limit of optimistic writes; each failed one means that another writer succeeded."""

SCOPES, DROPPED = "#scopes", "#dropped"
_DAY_SECONDS = 86_400


class GapLog:
    """Stores gaps for `days` after their last occurrence."""

    def __init__(self, table: Table, *, days: int, clock: Clock, most: int = MAX_GAPS) -> None:
        self._table = table
        self._days = days
        self._clock = clock
        self._most = most
        self._known: set[str] = set()

    def add(self, new: Gap) -> Gap:
        """Add a question to the gap with the same intent, or as a new gap. Returns the gap.

        No concurrent write is lost. Raises `StoreUnavailableError`.
        """
        found = new.gap_id
        if self._table.get({"scopeKey": new.scope_key, "gapId": found}) is None:  # else no other gap needs to be read
            gaps = list(self.gaps(new.scope_key)) if new.may_be_alike else None
            alike = _most_alike(gaps, new) if gaps else None
            if alike is None and self._create(new, self._table.count(new.scope_key) if gaps is None else len(gaps)):
                return new
            found = alike.gap_id if alike else found
        return self._change(new.scope_key, found, lambda gap: gap.counting(new) if gap else new)

    def _create(self, new: Gap, count: int) -> bool:
        """Store a new gap beside `count` others; False if another caller has just created the same one."""
        self._make_room(new.scope_key, count + 1 - self._most)
        self._record_scope(new.scope_key)
        return put_if(self._table, self._item(new), KeyAbsent())

    def gaps(self, scope_key: str) -> Iterator[Gap]:
        """All gaps of a scope, by id."""
        return readable(from_item, self._table.query(scope_key))

    def scopes(self) -> list[str]:
        """The scopes that have or had gaps."""
        return [str(item["gapId"]) for item in self._table.query(SCOPES)]

    def dropped(self, scope_key: str) -> int:
        """Number of gaps of a scope that were dropped for new ones."""
        item = self._table.get({"scopeKey": DROPPED, "gapId": scope_key})
        return int(item["count"]) if item else 0

    def settle(
        self, gap: Gap, status: GapStatus, *, because: str = "", closed_by: str = "", title: str = "", by: str = ""
    ) -> Gap:
        """Close, ignore or open a gap. Raises `ConditionFailedError` if it was changed since it was read."""
        settled = replace(
            gap,
            status=status,
            because=because,
            closed_by=closed_by,
            closed_by_title=title,
            closed_at=iso_time(self._clock()) if status is not GapStatus.OPEN else "",
            settled_by=by,
            revision=gap.revision + 1,
        )
        self._table.put(self._item(settled), condition=Equals("revision", gap.revision))
        return settled

    def assign(self, gap: Gap, owner: str) -> Gap:
        """Set the owner of a gap, "" for none of its own; counts of questions that come meanwhile are kept. Raises
        `ConditionFailedError` if the gap was dropped."""

        def assigned(found: Gap | None) -> Gap:
            if found is None:
                raise ConditionFailedError(f"gap {gap.gap_id} was dropped meanwhile")
            return replace(found, owner=owner, revision=found.revision + 1)

        return self._change(gap.scope_key, gap.gap_id, assigned)

    def _change(self, scope_key: str, gap_id: str, change: Callable[[Gap | None], Gap]) -> Gap:
        for _ in range(_ATTEMPTS):
            item = self._table.get({"scopeKey": scope_key, "gapId": gap_id})
            changed = change(from_item(item) if item else None)
            if put_if(self._table, self._item(changed), Equals("revision", item["revision"]) if item else KeyAbsent()):
                return changed
        raise StoreUnavailableError(f"gap {gap_id} can't be changed: too many concurrent writers")

    def _make_room(self, scope_key: str, surplus: int) -> None:
        if surplus <= 0:
            return
        gaps = sorted(
            self.gaps(scope_key),
            key=lambda gap: (gap.status is not GapStatus.CLOSED, gap.count, gap.last_asked_at, gap.gap_id),
        )
        for gap in gaps[:surplus]:
            self._table.delete({"scopeKey": gap.scope_key, "gapId": gap.gap_id})
            if gap.status is not GapStatus.CLOSED:
                self._record_dropped(gap.scope_key)

    def _record_dropped(self, scope_key: str) -> None:
        log.warning("a scope has reached the limit of %d gaps: one was dropped", self._most)
        self._table.put({"scopeKey": DROPPED, "gapId": scope_key, "count": self.dropped(scope_key) + 1})

    def _record_scope(self, scope_key: str) -> None:
        if scope_key not in self._known:
            self._table.put({"scopeKey": SCOPES, "gapId": scope_key})
            self._known.add(scope_key)

    def _item(self, gap: Gap) -> Item:
        return to_item(gap, int(self._clock()) + self._days * _DAY_SECONDS)


def gap_id(scope_key: str, wording: Wording, named: tuple[str, ...]) -> str:
    """Id of a gap, equal for equal words, so that concurrent callers find each other's gap."""
    return stable_hash("gap", scope_key, wording.terms_key, list(named))


def absent_gap_id(scope_key: str, name: str) -> str:
    """Id of a gap, equal for equal absent names, whatever the rest of the question is."""
    return stable_hash("absent", scope_key, name.casefold())


def find_gap(gaps: Iterator[Gap], wanted: str) -> Gap:
    """The only gap whose id has this prefix. Raises `InvalidInputError`."""
    found = beginning_so(wanted, gaps, lambda gap: f"{gap.gap_id}  {gap.last_asked_at}", kind="gaps")
    if found is None:
        raise InvalidInputError(f"no gap has an id that begins with {wanted!r}; `opx gaps --all` lists them")
    return found


def _most_alike(gaps: list[Gap], new: Gap) -> Gap | None:
    rated = [(gap.likeness(new), gap) for gap in gaps]
    likeness, found = max(rated, key=lambda each: (each[0], each[1].gap_id), default=(-1.0, None))
    return found if likeness >= 0 else None
