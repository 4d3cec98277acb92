"""Pulls sources into the corpus: page by page, each stored before the next is asked for.

A pull that is interrupted goes on where it was, with the `since` that it began with. What a page gave is put first,
then remembered, then the cursor is moved: done twice, it is the same. Documents that vanished are withdrawn after a
complete listing alone, and not if it misses more than the source's share: then somebody has to look.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol
from urllib.parse import quote

from opx.domain.ids import stable_hash
from opx.domain.sources import Page, PullRequest, Refused, SourceDefinition, SourceDocument
from opx.domain.times import iso_time
from opx.errors import (
    ForbiddenAddressError,
    InvalidInputError,
    SecretNotFoundError,
    SourceRefusedError,
    SourceShapeError,
    StoreUnavailableError,
)
from opx.ingestion.corpus_writer import CorpusWriter, stored_bytes
from opx.operations.metrics import Metric, Report, unreported
from opx.ports.time import Clock
from opx.sources.connector import Connector
from opx.sources.repository import SourceItem, SourceItems, SourceRepository
from opx.sources.states import MAX_REFUSED, PullState

log = logging.getLogger(__name__)

LEASE_SECONDS = 900.0
OVERLAP = timedelta(hours=1)
"""A source without a time of its own is asked for changes from this long before the last pull began: clocks differ."""

SEEN_OVERLAP = timedelta(minutes=5)
"""And one that says up to when it gave changes, from this long before: it may note a change later than it dates it."""

PUT_AT_ONCE = 100
_NEVER_SEEN = "the source calls it unchanged, but it was never taken in: pull with --everything"
_UNSAFE = re.compile(r"(^|/)\.+(/|$)|//")
_FAILURES = (
    StoreUnavailableError,
    SourceRefusedError,
    SourceShapeError,
    ForbiddenAddressError,
    SecretNotFoundError,
)


class Connected(Protocol):
    """A connector, and what has to be done after its pages are stored."""

    @property
    def connector(self) -> Connector[Any]: ...

    @property
    def items(self) -> SourceItems: ...

    def commit(self) -> None:
        """The replies so far need not be read again."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class PullReport:
    """What a pull did. `more`: it stopped because it was told to, and goes on with the next one. `error`: it stopped
    because of that, and goes on likewise. `flag`: documents are missing, and none was withdrawn for it."""

    source_id: str
    put: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    unchanged: int = 0
    refused: int = 0
    refusals: tuple[Refused, ...] = ()
    flag: str = ""
    error: str = ""
    more: bool = False


@dataclass(slots=True)
class _Run:
    """A pull under way. `put` and `withdrawn` are object keys of this process's part of it."""

    definition: SourceDefinition
    connected: Connected
    state: PullState
    put: list[str] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)


class SourcePuller:
    """Pulls sources, one process at a time each."""

    def __init__(
        self,
        *,
        sources: SourceRepository,
        connect: Callable[[SourceDefinition], Connected],
        manager: CorpusWriter,
        clock: Clock,
        lease_seconds: float = LEASE_SECONDS,
        exclusive: Callable[[str], AbstractContextManager[Any]] = nullcontext,
        unit_of_work: Callable[[], AbstractContextManager[Any]] = nullcontext,
        threads: int = 1,
        report: Report = unreported,
    ) -> None:
        self._sources = sources
        self._connect = connect
        self._manager = manager
        self._clock = clock
        self._lease = lease_seconds
        self._exclusive = exclusive
        self._unit_of_work = unit_of_work
        self._threads = threads
        self._report = report

    def pull(
        self,
        source_id: str,
        *,
        stop: Callable[[], bool] = lambda: False,
        everything: bool = False,
        accept_missing: bool = False,
    ) -> PullReport:
        """Take in what changed since the last pull, or `everything`. What goes wrong with the source is in the report,
        and in its state; what was stored until then stays.

        `stop` is asked after every page. `accept_missing` withdraws what is missing, however much it is. Raises
        `SourceBusyError`, and `InvalidInputError` for a source that isn't there or has wrong options.
        """
        definition = self._sources.get(source_id)
        with self._exclusive(source_id), closing(self._connect(definition)) as connected:
            state = self._sources.claim(source_id, seconds=self._lease)
            if everything:
                connected.items.forget_validators()
                state = replace(state, since="", run="", cursor={}, left={})
            run = _Run(definition, connected, self._begun(state))
            return self._reported(run, self._through(run, stop, accept_missing=accept_missing))

    def _begun(self, state: PullState) -> PullState:
        """The state of a new pull, or of the one that was interrupted."""
        now = iso_time(self._clock())
        if state.run:
            return replace(state, last_attempt=now)
        return PullState(
            state.source_id,
            since=state.since,
            left=state.left,
            run=stable_hash("run", state.source_id, now, state.owner)[:12],
            started=now,
            owner=state.owner,
            lease_until=state.lease_until,
            last_attempt=now,
            last_success=state.last_success,
            failures=state.failures,
            flag=state.flag,
        )

    def _through(self, run: _Run, stop: Callable[[], bool], *, accept_missing: bool) -> bool:
        """Whether more is to come."""
        try:
            for page in self._pages(run):
                self._store(run, page)
                if page.complete:
                    self._withdraw_missing(run, accept=accept_missing)
                elif stop():
                    self._finish(run, replace(run.state, error="", failures=0))
                    return True
        except _FAILURES as exc:
            log.warning("pull of %s: %s", run.definition.source_id, type(exc).__name__)
            wait = float(getattr(exc, "retry_after", 0.0) or 0.0)
            state = run.state
            self._finish(
                run,
                replace(
                    state, error=str(exc), failures=state.failures + 1, retry_at=self._clock() + wait if wait else 0.0
                ),
            )
            return False
        self._finish(run, self._done(run.state))
        return False

    def _pages(self, run: _Run) -> Iterator[Page]:
        request = PullRequest(run.state.since, run.state.cursor, run.state.left)
        yield from run.connected.connector.pull(request)

    def _done(self, state: PullState) -> PullState:
        """From when the next pull asks: a little before this one's end by the source's time, or its beginning by ours."""
        since = _earlier(state.seen_until, SEEN_OVERLAP) if state.seen_until else _earlier(state.started, OVERLAP)
        return replace(
            state,
            since=max(since, state.since),
            run="",
            cursor={},
            left=state.cursor,
            last_success=iso_time(self._clock()),
            error="",
            failures=0,
            retry_at=0.0,
        )

    def _finish(self, run: _Run, state: PullState) -> None:
        self._sources.save(replace(state, owner="", lease_until=0.0), run.state.owner)
        run.state = replace(state, owner="")

    # -- a page

    def _store(self, run: _Run, page: Page) -> None:
        """Put, remember, withdraw, and only then move the cursor."""
        latest = {document.key: document for document in page.documents}
        known = run.connected.items.get_many([*latest, *page.unchanged, *page.withdrawn])
        remembered: dict[str, SourceItem] = {}
        refused = list(page.refused)
        before = len(run.put)
        for item in self._put_all(run, list(latest.values()), known):
            if isinstance(item, Refused):
                refused.append(item)
            else:
                remembered[item.key] = item
        changed = len(run.put) - before
        for key in page.unchanged:
            if key in known:
                remembered.setdefault(key, replace(known[key], run=run.state.run))
            elif key not in remembered:
                refused.append(Refused(key, _NEVER_SEEN))
        for one in refused:  # still listed: what is known of it stays
            if one.key in known and one.key not in remembered:
                remembered[one.key] = replace(known[one.key], run=run.state.run)
        run.connected.items.put_many(remembered.values())
        gone = [known[key] for key in dict.fromkeys(page.withdrawn) if key in known and key not in latest]
        self._withdraw(run, gone)
        run.connected.commit()
        self._advance(run, page, changed, len(remembered) - changed, refused)

    def _put_all(
        self, run: _Run, documents: Sequence[SourceDocument], known: Mapping[str, SourceItem]
    ) -> Iterator[SourceItem | Refused]:
        """Several at a time where that means waiting for a network, and in one commit where it means waiting for a disk."""

        def put(document: SourceDocument) -> SourceItem | Refused:
            try:
                return self._put(run, document, known.get(document.key))
            except InvalidInputError as exc:
                return Refused(document.key, str(exc))

        for at in range(0, len(documents), PUT_AT_ONCE):
            some = documents[at : at + PUT_AT_ONCE]
            if self._threads > 1 and len(some) > 1:
                with ThreadPoolExecutor(self._threads) as pool:
                    yield from pool.map(put, some)
            else:
                with self._unit_of_work():
                    found = [put(document) for document in some]
                yield from found

    def _put(self, run: _Run, document: SourceDocument, known: SourceItem | None) -> SourceItem:
        definition = run.definition
        metadata = {**document.metadata, "source": f"sources/{definition.source_id}/{object_name(document.key)}"}
        if definition.tags:
            metadata["tags"] = [*metadata.get("tags", ()), *definition.tags]
        content = hashlib.sha256(stored_bytes(document.content)).hexdigest()
        digest = stable_hash("source document", definition.category, content, metadata)
        if known and known.digest == digest:
            return replace(known, run=run.state.run)
        key = self._manager.put_document(definition.category, document.content, metadata)
        if known and known.object_key != key:  # of another category before
            self._manager.delete_object(known.object_key)
        run.put.append(key)
        self._report(Metric.DOCUMENTS_PULLED)
        return SourceItem(document.key, digest, key, run.state.run)

    def _withdraw(self, run: _Run, items: list[SourceItem]) -> None:
        for item in items:
            self._manager.delete_object(item.object_key)
            run.connected.items.delete(item.key)
            run.withdrawn.append(item.object_key)
            self._report(Metric.DOCUMENTS_WITHDRAWN)
        run.state = replace(run.state, withdrawn=run.state.withdrawn + len(items))

    def _advance(self, run: _Run, page: Page, put: int, unchanged: int, refused: list[Refused]) -> None:
        state = run.state
        moved = replace(
            state,
            cursor=dict(page.cursor),
            seen_until=max(state.seen_until, page.seen_until),
            lease_until=self._clock() + self._lease,
            put=state.put + put,
            unchanged=state.unchanged + unchanged,
            refused=state.refused + len(refused),
            refusals=(*state.refusals, *refused)[:MAX_REFUSED],
        )
        self._sources.save(moved, state.owner)
        run.state = moved

    # -- what vanished

    def _withdraw_missing(self, run: _Run, *, accept: bool) -> None:
        missing: list[SourceItem] = []
        total = 0
        for item in run.connected.items.all():
            total += 1
            if item.run != run.state.run:
                missing.append(item)
        share = run.definition.max_missing_share
        if len(missing) > share * total and not accept:
            told = (
                f"the listing misses {len(missing):,} of {total:,} documents, more than {share:.0%}: none was withdrawn. "
                f"If they are gone, run `opx source pull {run.definition.source_id} --accept-missing`"
            )
            log.warning("source %s: %d of %d documents are missing", run.definition.source_id, len(missing), total)
            run.state = replace(run.state, flag=told)
            self._report(Metric.SOURCES_FLAGGED)
            return
        run.state = replace(run.state, flag="")
        self._withdraw(run, missing)

    def _reported(self, run: _Run, more: bool) -> PullReport:
        state = run.state
        if state.error:
            self._report(Metric.PULL_FAILURES)
        return PullReport(
            source_id=state.source_id,
            put=tuple(run.put),
            withdrawn=tuple(run.withdrawn),
            unchanged=state.unchanged,
            refused=state.refused,
            refusals=state.refusals,
            flag=state.flag,
            error=state.error,
            more=more,
        )


def object_name(key: str) -> str:
    """A document's key as a part of an object's key: readable, and without what no object can be called."""
    name = quote(key.strip("/"), safe="/@+,=()!~ ")
    if (
        name != quote(key, safe="/@+,=()!~ ")
        or not name
        or len(name) > 400
        or _UNSAFE.search(name)
        or name.endswith(".metadata.json")
    ):
        return f"{stable_hash('item', key)}{_extension(key)}"
    return name


def _extension(key: str) -> str:
    match = re.search(r"\.[A-Za-z0-9]{1,8}\Z", key)
    return match[0] if match and not key.endswith(".metadata.json") else ""


def _earlier(moment: str, by: timedelta) -> str:
    found = datetime.fromisoformat(moment)
    return iso_time(((found if found.tzinfo else found.replace(tzinfo=UTC)) - by).timestamp())
