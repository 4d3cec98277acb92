"""Counts what each client uses: an item a client and day, made once a day of the audit log and the catalog."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Annotated

from opx.domain.record import Record, about, like
from opx.domain.scopes import GLOBAL_KEY, scope_of_key
from opx.errors import InvalidInputError
from opx.ports import Clock, Item, KeyRange, Table
from opx.records.audit import AuditLog

KEPT_DAYS = 400
"""A year and a month: also of a removed client, whose last bills are written after its removal."""

_DAY_SECONDS = 86_400


class DayUsage(Record, frozen=True, kw_only=True):
    """A client's use of one day (UTC). `documents`, `chunks` and `tokens` are those stored when it was counted; `ingested_…`
    are those of them that came in on that day. `questions` is None where no audit log is kept."""

    client_id: str
    day: str
    questions: int | None = None
    documents: int = 0
    chunks: int = 0
    tokens: int = 0
    ingested_documents: int = 0
    ingested_chunks: int = 0
    ingested_tokens: int = 0


class ClientUsage(Record, frozen=True, kw_only=True):
    """A client's use of a month."""

    client_id: Annotated[str, about("Empty for the global scope.")]
    days: Annotated[int, about("Number of days that were counted.")]
    questions: Annotated[int | None, about("Null if no audit log is kept.")]
    documents: Annotated[int, about("Stored on the last day; likewise chunks and tokens.")]
    chunks: int
    tokens: int
    chunk_days: Annotated[int, about("Sum of the stored chunks of each day.")]
    ingested_documents: Annotated[int, about("New documents and versions of the month.")]
    ingested_chunks: int
    ingested_tokens: int


class DayCount(Record, frozen=True):
    """A day that was counted, and the number of clients with any use."""

    day: str
    clients: int


@dataclass
class UsageTally:
    """Counts documents by client, for one day (`2026-11-24`)."""

    day: str
    counts: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0] * 6))

    def add(self, client_id: str, chunks: int, tokens: int, since: str) -> None:
        """Counts a version that is current since then (ISO 8601)."""
        sizes = (1, chunks, tokens)
        counted = (*sizes, *(sizes if since.startswith(self.day) else (0, 0, 0)))
        found = self.counts[client_id]
        found[:] = [old + new for old, new in zip(found, counted, strict=True)]


class UsageLog:
    """Stores the daily use of clients for `KEPT_DAYS`. `audit` is None if questions aren't recorded."""

    def __init__(self, table: Table, audit: AuditLog | None, clock: Clock) -> None:
        self._table = table
        self._audit = audit
        self._clock = clock

    def tally(self, day: str = "") -> UsageTally:
        """An empty tally of a past day, the last one by default. Raises `InvalidInputError` for another day."""
        yesterday = self._today() - timedelta(days=1)
        try:
            chosen = date.fromisoformat(day) if day else yesterday
        except ValueError:
            raise InvalidInputError(f"{day[:40]!r} is no day such as 2026-11-24") from None
        if not self._today() - timedelta(days=KEPT_DAYS) < chosen <= yesterday:
            raise InvalidInputError(f"the use of {chosen} can't be counted: it is no past day of the last {KEPT_DAYS}")
        return UsageTally(chosen.isoformat())

    def record(self, tally: UsageTally) -> DayCount:
        """Stores the use of a day, in place of an earlier count.

        Raises `StoreUnavailableError`.
        """
        questions = self._questions(tally.day)
        names = tuple(DayUsage.__struct_fields__)[3:]
        clients = sorted({*tally.counts, *questions})
        expires = int(self._clock()) + KEPT_DAYS * _DAY_SECONDS
        self._table.put_many(
            _to_item(
                DayUsage(
                    client_id=client,
                    day=tally.day,
                    questions=questions.get(client, 0) if self._audit else None,
                    **dict(zip(names, tally.counts[client], strict=True)),
                ),
                expires,
            )
            for client in clients
        )
        return DayCount(tally.day, len(clients))

    def has(self, day: str) -> bool:
        """True if any client's use of a day is stored."""
        return any(item["day"] == day for item in self._table.query(day[:7]))

    def of_month(
        self, month: str, client_id: str | None = None, *, since: str = "", after: str = ""
    ) -> Iterator[ClientUsage]:
        """The use of a month by client, in the order of their ids; of one client if it is given, from the day `since` on.
        Those up to the id `after` are left out."""
        only = KeyRange(begins_with=_sort_key(client_id, "")) if client_id is not None else None
        where = only or (KeyRange(low=_sort_key(after, "~")) if after else None)
        days: list[DayUsage] = []
        for found in self.days_of(month, where):
            if found.day < since:
                continue
            if days and days[0].client_id != found.client_id:
                yield _summed(days)
                days = []
            days.append(found)
        if days:
            yield _summed(days)

    def days_of(self, month: str, where: KeyRange | None = None) -> Iterator[DayUsage]:
        """The use of each day of a month, by client."""
        return map(DayUsage.from_json, self._table.query(month, where=where))

    def _questions(self, day: str) -> dict[str, int]:
        questions: dict[str, int] = defaultdict(int)
        for scope in self._audit.scopes() if self._audit else ():
            if count := self._audit.count(scope, day) if self._audit else 0:
                questions[scope_of_key(scope).client_id] += count
        return questions

    def _today(self) -> date:
        return datetime.fromtimestamp(self._clock(), UTC).date()


def _summed(days: list[DayUsage]) -> ClientUsage:
    last, questions = days[-1], [one.questions for one in days if one.questions is not None]
    return like(
        ClientUsage,
        last,
        days=len(days),
        questions=sum(questions) if questions else None,
        chunk_days=sum(one.chunks for one in days),
        ingested_documents=sum(one.ingested_documents for one in days),
        ingested_chunks=sum(one.ingested_chunks for one in days),
        ingested_tokens=sum(one.ingested_tokens for one in days),
    )


def _sort_key(client_id: str, day: str) -> str:
    return f"{client_id or GLOBAL_KEY}#{day}"


def usage_key(used: DayUsage) -> dict[str, str]:
    """Key of a client's day."""
    return {"month": used.day[:7], "clientDay": _sort_key(used.client_id, used.day)}


def _to_item(used: DayUsage, expires: int) -> Item:
    return {
        **used.to_json(),
        **usage_key(used),
        "expiresAt": expires,
    }
