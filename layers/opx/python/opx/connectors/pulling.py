"""Pulls sources into the corpus page by page, each stored before the next is requested.

An interrupted pull resumes at its cursor, with the `since` that it began with. Documents of a page are put first, then
recorded, then the cursor advances: repeating a page is idempotent. Documents that vanished are withdrawn only after a
complete listing, and not if it misses more than the source's share: then the operator has to decide.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from opx.connectors.connector import pages_of
from opx.connectors.repository import SourceItem, SourceRepository
from opx.connectors.states import BY_HAND, MAX_REFUSED, MAX_RETRIES, PullState, retry_delay
from opx.connectors.storing import Connected, PageStore, PullRun, Stored
from opx.domain.ids import iso_time, stable_hash
from opx.domain.knowledge import KnowledgeModel
from opx.domain.record import replace
from opx.domain.sources import PullReport, PullRequest, Refused, SourceDefinition
from opx.errors import InvalidInputError, OpxError, SourceBusyError, SourceShapeError
from opx.ports import Clock, Queue
from opx.runtime.metrics import Metric, Report, unreported

log = logging.getLogger(__name__)


# -- requested pulls


MAX_DELAY_SECONDS = 900
"""SQS's maximum delay of a message. A source that requires a longer pause is pulled at its next scheduled time."""

BUSY_SECONDS = 300
_FLAGS = ("everything", "accept_missing")


class PullRequests:
    """Executes requested pulls one at a time; `pulls` is the queue for a request to continue or retry."""

    def __init__(self, sources: SourceRepository, puller: SourcePuller, pulls: Queue | None, clock: Clock) -> None:
        self._sources = sources
        self._puller = puller
        self._pulls = pulls
        self._clock = clock

    def do(self, body: str, *, stop: Callable[[], bool]) -> None:
        """Pulls the source that a message names, until `stop` returns True; another message requests the rest.

        A source that is being pulled already is left to that process; one that was removed, and a scheduled pull of one
        that is paused, are ignored. Raises `InvalidInputError` for a message that names no source, and for a source with
        wrong options.
        """
        requested = _parsed(body)
        source_id = requested["source"]
        found = {definition.source_id: definition for definition in self._sources.all()}.get(source_id)
        if found is None:
            log.warning("there is no source %s any more", source_id)
            return
        if not (found.enabled or requested.get(BY_HAND)):
            log.info("source %s is paused", source_id)
            return
        # A continued pull must not start over, even if everything was requested.
        again = {"source": source_id, **{name: True for name in ("accept_missing", BY_HAND) if requested.get(name)}}
        try:
            done = self._puller.pull(source_id, stop=stop, **{flag: bool(requested.get(flag)) for flag in _FLAGS})
        except SourceBusyError as exc:
            log.info("left alone: %s", exc)
            if any(
                requested.get(flag) for flag in _FLAGS
            ):  # a caller requested it, and was promised that it will be done
                self._send(requested, BUSY_SECONDS)
            return
        if done.more:
            self._send(again, 0)
        elif done.error:
            self._try_again(again)

    def _try_again(self, requested: Mapping[str, Any]) -> None:
        """Retries three times, with growing pauses; afterwards the source waits for its next scheduled time."""
        state = self._sources.state(requested["source"])
        delay = retry_delay(state, self._clock())
        if state.failures <= MAX_RETRIES and delay <= MAX_DELAY_SECONDS:
            self._send(requested, int(delay))

    def _send(self, requested: Mapping[str, Any], delay: int) -> None:
        if self._pulls is None:
            raise InvalidInputError("pulls can't be queued here: OPX_PULL_QUEUE_URL is not set")
        self._pulls.send(json.dumps(requested), delay_seconds=delay)


def _parsed(body: str) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError as exc:
        raise InvalidInputError("the message is not JSON") from exc
    if not isinstance(found, dict) or not isinstance(found.get("source"), str):
        raise InvalidInputError("the message names no source")
    return found


# -- pulls


LEASE_SECONDS = 900.0
OVERLAP = timedelta(hours=1)
"""A source without times of its own is queried for changes from this long before the last pull began: clocks differ."""

SEEN_OVERLAP = timedelta(minutes=5)
"""A source that dates its changes is queried from this long before the newest one: it may record a change later than it
dates it."""

WITHDRAW_AT_ONCE = 100
MAX_ERROR = 1_000
"""Characters of an error that are kept in the state."""


@dataclass(eq=False, kw_only=True)
class SourcePuller:
    """Pulls sources, each in one process at a time."""

    sources: SourceRepository
    connect: Callable[[SourceDefinition], Connected]
    store: PageStore
    knowledge: KnowledgeModel
    clock: Clock
    lease_seconds: float = LEASE_SECONDS
    exclusive: Callable[[str], AbstractContextManager[Any]] = nullcontext
    report: Report = unreported

    def pull(
        self,
        source_id: str,
        *,
        stop: Callable[[], bool] = lambda: False,
        everything: bool = False,
        accept_missing: bool = False,
    ) -> PullReport:
        """Ingests changes since the last pull, or `everything`: then all documents are put again. A failure of the source
        is in the report, and in its state; documents stored before it stay.

        `stop` is called after every page. `accept_missing` withdraws missing documents, however many they are. Raises
        `SourceBusyError`, and `InvalidInputError` for an unknown source or wrong options.
        """
        definition = self.sources.get(source_id)
        with self.exclusive(source_id), closing(self.connect(definition)) as connected:
            state = self.sources.claim(source_id, seconds=self.lease_seconds)
            fingerprint = _digest(definition)
            if everything or (state.definition and state.definition != fingerprint):
                connected.items.forget_validators()
                state = replace(state, since="", run="", cursor={}, left={}, everything=True)
            elif (accept_missing and state.flag) or self._may_keep_more(definition, state):
                connected.items.forget_validators()  # a listing that didn't change would not be given again
                state = replace(state, since="", run="", cursor={}, left={})
            run = PullRun(definition, connected, self._begun(replace(state, definition=fingerprint)))
            return self._reported(run, self._run(run, stop, accept_missing=accept_missing))

    def _begun(self, state: PullState) -> PullState:
        """State of a new pull, or of the interrupted one."""
        now = iso_time(self.clock())
        if state.run:
            return replace(state, last_attempt=now)
        return PullState(
            state.source_id,
            since=min(state.since, now),
            left=state.left,
            run=stable_hash("run", state.source_id, now, state.owner)[:12],
            started=now,
            owner=state.owner,
            lease_until=state.lease_until,
            last_attempt=now,
            last_success=state.last_success,
            failures=state.failures,
            flag=state.flag,
            definition=state.definition,
            everything=state.everything,
            kept_out_in_all=state.kept_out_in_all,
        )

    def _run(self, run: PullRun, stop: Callable[[], bool], *, accept_missing: bool) -> bool:
        """Runs a pull until it is done or stopped; True if more pages remain."""
        try:
            more = self._pages(run, stop, accept_missing=accept_missing)
        except SourceBusyError:  # another process has taken over, and owns the state
            raise
        except OpxError as exc:
            log.warning("pull of %s: %s", run.definition.source_id, type(exc).__name__)
            wait = float(getattr(exc, "retry_after", 0.0) or 0.0)
            state = replace(run.state, error=str(exc)[:MAX_ERROR], failures=run.state.failures + 1)
            self._finish(run, replace(state, retry_at=self.clock() + wait if wait else 0.0))
            return False
        self._finish(run, run.state if more else self._done(run.state))
        return more

    def _pages(self, run: PullRun, stop: Callable[[], bool], *, accept_missing: bool) -> bool:
        request = PullRequest(run.state.since, run.state.cursor, run.state.left)
        for page in pages_of(run.connected.connector, request):
            seen = _moment(page.seen_until, run) if page.seen_until else None
            stored = self.store.store(run, page)
            run.connected.commit()
            self._advance(run, stored, cursor=dict(page.cursor), seen_until=page.seen_until if seen else "")
            if page.complete:
                return self._withdraw_missing(run, stop, accept=accept_missing)
            if stop():
                return True
        return False

    def _advance(self, run: PullRun, stored: Stored, *, cursor: dict[str, Any], seen_until: str) -> None:
        """Records a stored page: the cursor moves behind it, and earlier failures are cleared."""
        state = run.state
        self._keep(
            run,
            replace(
                state,
                cursor=cursor,
                seen_until=max(state.seen_until, seen_until),
                put=state.put + stored.put,
                added=state.added + stored.added,
                unchanged=state.unchanged + stored.unchanged,
                refused=state.refused + len(stored.refused),
                kept_out=state.kept_out + stored.kept_out,
                kept_out_in_all=state.kept_out_in_all + stored.newly_kept_out,
                kept_out_by=self._policy(run.definition),
                refusals=(*state.refusals, *((one.key, one.reason) for one in stored.refused))[:MAX_REFUSED],
                error="",
                failures=0,
                retry_at=0.0,
            ),
        )

    def _policy(self, definition: SourceDefinition) -> str:
        return self.knowledge.category(definition.category).policy

    def _may_keep_more(self, definition: SourceDefinition, state: PullState) -> bool:
        """True if the retention that keeps documents out was changed since."""
        return bool(state.kept_out_in_all) and state.kept_out_by != self._policy(definition)

    def _keep(self, run: PullRun, state: PullState) -> None:
        """Saves the state and renews the lease."""
        held = replace(state, lease_until=self.clock() + self.lease_seconds)
        self.sources.save(held, held.owner)
        run.state = held

    def _done(self, state: PullState) -> PullState:
        """State of a finished pull. The next one queries changes from shortly before this one's end by the source's time,
        or its beginning by ours; never from a future time, whatever a source reports."""
        since = _earlier(state.seen_until, SEEN_OVERLAP) if state.seen_until else _earlier(state.started, OVERLAP)
        now = iso_time(self.clock())
        return replace(
            state,
            since=max(min(since, now), state.since),
            run="",
            cursor={},
            left=state.cursor,
            last_success=now,
            error="",
            failures=0,
            retry_at=0.0,
            everything=False,
        )

    def _finish(self, run: PullRun, state: PullState) -> None:
        self.sources.save(replace(state, owner="", lease_until=0.0), run.state.owner)
        run.state = replace(state, owner="")

    # -- documents that vanished

    def _withdraw_missing(self, run: PullRun, stop: Callable[[], bool], *, accept: bool) -> bool:
        """Withdraws the documents that the pull didn't list, or raises the flag. Returns True if it had to stop before
        all were withdrawn: the rest is missing again in the next complete listing."""
        missing: list[SourceItem] = []
        total = 0
        for item in run.connected.items.all():
            total += 1
            if item.run != run.state.run:
                missing.append(item)
        share = run.definition.max_missing_share
        if len(missing) > max(1.0, share * total) and not accept:
            log.warning("source %s: %d of %d documents are missing", run.definition.source_id, len(missing), total)
            run.state = replace(run.state, flag=_flag(run.definition, len(missing), total))
            self.report(Metric.SOURCES_FLAGGED)
            return False
        run.state = replace(run.state, flag="")
        for at in range(0, len(missing), WITHDRAW_AT_ONCE):
            if at and stop():
                return True
            self.store.withdraw(run, missing[at : at + WITHDRAW_AT_ONCE])
            self._keep(run, run.state)
        return False

    def _reported(self, run: PullRun, more: bool) -> PullReport:
        state = run.state
        if state.error:
            self.report(Metric.PULL_FAILURES)
        return PullReport(
            source_id=state.source_id,
            put=tuple(run.put),
            withdrawn=tuple(run.withdrawn),
            unchanged=state.unchanged,
            refused=state.refused,
            refusals=tuple(Refused(key, reason) for key, reason in state.refusals),
            kept_out=state.kept_out,
            kept_out_by=state.kept_out_by if state.kept_out else "",
            flag=state.flag,
            error=state.error,
            more=more,
        )


def _flag(definition: SourceDefinition, missing: int, total: int) -> str:
    return (
        f"the listing misses {missing:,} of {total:,} documents, more than {definition.max_missing_share:.0%}: none was "
        f"withdrawn. If they are gone, run `opx source pull {definition.source_id} --accept-missing`"
    )


def _digest(definition: SourceDefinition) -> str:
    """Fingerprint of the settings that determine a source's documents: if it changes, all of them are read again."""
    return stable_hash("definition", {name: value for name, value in definition.fields().items() if name in _DECISIVE})


_DECISIVE = ("kind", "category", "options", "tags")


def _moment(text: str, run: PullRun) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as exc:
        raise SourceShapeError(f"source {run.definition.source_id}: {text[:40]!r} is not a time of a change") from exc
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _earlier(moment: str, by: timedelta) -> str:
    found = datetime.fromisoformat(moment)
    return iso_time(((found if found.tzinfo else found.replace(tzinfo=UTC)) - by).timestamp())
