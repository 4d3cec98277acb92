"""Checkpoints: turn verified entries into patterns and warnings, each entry once.

Every step is idempotent. An entry's pattern is decided and stored before anything is counted; a document is put before the
head that records it; a head before the rows of the entries it counts; and an entry is marked as processed last of all. A
process that dies leaves entries that are ready, and the next checkpoint finds the steps that were completed. Two concurrent
checkpoints do the same work, and each finds done what the other did.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from opx.domain.ids import iso_time
from opx.domain.knowledge import PATTERNS_CATEGORY, WARNINGS_CATEGORY
from opx.domain.learning import (
    CheckpointReport,
    CheckpointType,
    EntryState,
    Pattern,
    Refusal,
    StagingEntry,
)
from opx.domain.record import replace
from opx.domain.scopes import Identity, Scope
from opx.errors import ClientRemovedError, InvalidInputError
from opx.ingestion.corpus.clients import ClientRegistry, ProjectRegistry
from opx.ingestion.manager import IngestionManager
from opx.learning.matching import PatternMatcher
from opx.learning.pattern_rows import (
    LearningProjects,
    joined,
    key_of,
    occurrence_of,
    problem_of,
    project_of,
    record_of,
    seed_of,
    unknown_project,
)
from opx.learning.patterns import PatternStore
from opx.learning.rules import LearningRules
from opx.learning.staging import Staging
from opx.learning.warnings import warning_document
from opx.ports import Clock

log = logging.getLogger(__name__)

MAX_WAITING = 1000
"""Ids of unverified entries that a report names."""

_BATCH = 100


@dataclass(frozen=True, slots=True)
class CheckpointParts:
    """Dependencies of a checkpoint. `manager` puts documents into a scope, `matcher` compares with its patterns, `warn` makes
    answers there show the warning of an entry."""

    staging: Staging
    projects: LearningProjects
    patterns: PatternStore
    rules: LearningRules
    clients: ClientRegistry
    registry: ProjectRegistry
    matcher: Callable[[str], PatternMatcher]
    manager: Callable[[Scope], IngestionManager]
    warn: Callable[[Scope, StagingEntry], None]
    clock: Clock


class CheckpointEmbeddingService:
    """Processes the entries that one identity captured."""

    def __init__(self, identity: Identity, parts: CheckpointParts) -> None:
        self._identity = identity
        self._parts = parts

    def process_checkpoint(
        self, project_id: str, checkpoint_type: str = CheckpointType.MANUAL.value
    ) -> CheckpointReport:
        """Processes the verified entries of a project. Unverified ones stay, and the report names them.

        Raises `UnknownProjectError`, `InvalidInputError` for an unknown type of checkpoint, `ClientRemovedError`, and
        `StoreUnavailableError`: then unprocessed entries are still there for the next checkpoint. An entry that can't
        be processed is in the report, and is tried again the next time.
        """
        began = time.monotonic()
        kind = _type(checkpoint_type)
        project = project_of(self._identity, project_id)
        scope = Scope(self._identity.client_id, project_id=self._identity.project_id)
        self._parts.clients.check(scope.client_id)
        self._require_known(scope, project)
        shared = self._parts.rules.shared(scope, self._parts.registry.group_of)
        run = _Run(self._parts, shared)
        for ids in self._ready(scope, project):
            run.process(self._parts.staging.get_many(ids))
        waiting = self._waiting(scope, project)
        run.process(waiting)  # entries verified since the index was updated
        run.finish()
        return replace(
            run.report(project, kind),
            waiting=tuple(entry.id for entry in waiting if entry.state is EntryState.WAITING),
            took_ms=(time.monotonic() - began) * 1000,
        )

    def _waiting(self, scope: Scope, project: str) -> list[StagingEntry]:
        """Entries that are not verified according to the index, the oldest first."""
        found = self._parts.staging.ids(scope.key, project, EntryState.WAITING)
        return self._parts.staging.get_many(list(islice(found, MAX_WAITING)))

    def _ready(self, scope: Scope, project: str) -> Iterator[list[str]]:
        """Ids of ready entries in batches, each id once, including entries that become ready meanwhile."""
        seen: set[str] = set()
        while True:
            found = [one for one in self._parts.staging.ids(scope.key, project, EntryState.READY) if one not in seen]
            if not found:
                return
            seen.update(found)
            yield from (found[start : start + _BATCH] for start in range(0, len(found), _BATCH))

    def _require_known(self, scope: Scope, project: str) -> None:
        """Raises `UnknownProjectError` unless the project has captured entries, or is one of the client's."""
        if self._parts.projects.is_known(scope.key, project):
            return
        client, own = scope.client_id, scope.project_id
        registered = self._parts.registry.projects(client) if client else iter(())
        names = (one.project_id for one in registered if not own or one.project_id == own)
        known = list(chain(self._parts.projects.all(scope.key), names))
        if project not in known:
            raise unknown_project(project, iter(sorted(set(known))))


@dataclass(slots=True)
class _Run:
    """One run of a checkpoint: assigns each entry to a pattern, counts, warns, and marks entries as processed."""

    _parts: CheckpointParts
    _shared: Scope
    _matcher: PatternMatcher = field(init=False)
    _manager: IngestionManager = field(init=False)
    _processed: int = 0
    _warnings: int = 0
    _new: set[str] = field(default_factory=set)
    _confirmed: set[str] = field(default_factory=set)
    _refused: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._matcher = self._parts.matcher(self._shared.key)
        self._manager = self._parts.manager(self._shared)

    def process(self, entries: Sequence[StagingEntry]) -> None:
        """Processes those of the entries that are ready."""
        ready = sorted(
            (one for one in entries if one.state is EntryState.READY), key=lambda one: (one.timestamp, one.id)
        )
        decided = self._decided([one for one in ready if problem_of(one)])
        groups: dict[str, list[StagingEntry]] = {}
        for entry in ready:
            groups.setdefault(decided.get(entry.id, ""), []).append(entry)
        for pattern_id, group in groups.items():
            try:
                self._process_group(pattern_id, group)
            except ClientRemovedError:
                raise
            except InvalidInputError as exc:  # content that no document can have
                self._refused.update((one.id, str(exc)) for one in group)

    def finish(self) -> None:
        """Ingests the documents that were put, where this process runs the pipeline."""
        for outcome in self._manager.work():
            if outcome.error:
                log.warning("ingestion of %s failed: %s", outcome.object_key, outcome.reason)

    def report(self, project: str, kind: CheckpointType) -> CheckpointReport:
        """The report so far."""
        return CheckpointReport(
            project_id=project,
            checkpoint_type=kind,
            taken_in=self._processed,
            patterns_new=len(self._new),
            patterns_confirmed=len(self._confirmed - self._new),
            warnings=self._warnings,
            refused=tuple(Refusal(entry, reason) for entry, reason in self._refused.items()),
        )

    def _decided(self, entries: Sequence[StagingEntry]) -> dict[str, str]:
        """Pattern id of each entry by the entry's id; new assignments are stored."""
        scope, patterns = self._shared.key, self._parts.patterns
        keys = {entry.id: key_of(entry) for entry in entries}
        known = patterns.decided(scope, list(keys.values()))
        self._matcher.prepare(entry for entry in entries if keys[entry.id] not in known)
        for entry in entries:
            seed, key = seed_of(scope, entry), keys[entry.id]
            if key not in known:
                known[key] = self._decide(entry, seed, key)
            if known[key] == seed.pattern_id:
                self._matcher.add(seed)
        return {entry.id: known[keys[entry.id]] for entry in entries}

    def _decide(self, entry: StagingEntry, seed: Pattern, key: str) -> str:
        """Assigns the entry to the pattern that it is like, or to a new one: compared again while no other process can create
        one, with those that were created meanwhile."""
        scope, patterns = seed.scope_key, self._parts.patterns
        alike = self._matcher.alike(entry)
        if alike is not None:
            return patterns.decide(scope, key, alike.pattern_id)
        with patterns.creating(scope):
            alike = self._matcher.alike_since(entry)
            if alike is None:
                patterns.add_fresh(seed)
            return patterns.decide(scope, key, (alike or seed).pattern_id)

    def _process_group(self, pattern_id: str, entries: Sequence[StagingEntry]) -> None:
        if pattern_id:
            self._count(pattern_id, entries)
        warned = [entry for entry in entries if _warns(entry)]
        for entry in warned:
            source, record = warning_document(entry)
            self._manager.put_document(WARNINGS_CATEGORY, record, {"source": source.rpartition("/")[2]})
            self._parts.warn(self._shared, entry)
        now = iso_time(self._parts.clock())
        taken = {entry.id for entry in entries if self._parts.staging.mark_processed(entry, pattern_id, now)}
        self._processed += len(taken)
        self._warnings += sum(entry.id in taken for entry in warned)

    def _count(self, pattern_id: str, entries: Sequence[StagingEntry]) -> None:
        seeds = [seed_of(self._shared.key, entry) for entry in entries]
        reasons = ["key" if seed.pattern_id == pattern_id else "similarity" for seed in seeds]
        seed = replace(joined(seeds), pattern_id=pattern_id)
        found = [occurrence_of(entry, reason) for entry, reason in zip(entries, reasons, strict=True)]
        counted = self._parts.patterns.count(seed, found, self._put)
        if counted.is_new:
            self._new.add(pattern_id)
        elif counted.is_confirmed:
            self._confirmed.add(pattern_id)

    def _put(self, pattern: Pattern) -> None:
        source = pattern.source.rpartition("/")[2]
        self._manager.put_document(PATTERNS_CATEGORY, record_of(pattern), {"source": source})


def _warns(entry: StagingEntry) -> bool:
    """True if the entry records an effect of something that didn't help."""
    return bool(entry.effect) and not entry.worked


def _type(name: str) -> CheckpointType:
    try:
        return CheckpointType(name)
    except ValueError as exc:
        raise InvalidInputError(
            f"unknown checkpoint_type {str(name)[:60]!r}; there are: {', '.join(CheckpointType)}"
        ) from exc
