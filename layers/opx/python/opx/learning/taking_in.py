"""One checkpoint under way: decides which pattern each entry belongs to, counts, warns, and marks what is done."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opx.domain.learning import (
    CATEGORY,
    WARNINGS,
    CheckpointReport,
    CheckpointType,
    EntryState,
    Pattern,
    Refusal,
    StagingEntry,
)
from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.domain.times import iso_time
from opx.errors import ClientRemovedError, InvalidInputError
from opx.learning.pattern_documents import joined, key_of, occurrence_of, problem_of, record_of, seed_of
from opx.learning.warnings import warning_document

if TYPE_CHECKING:
    from opx.ingestion.manager import IngestionManager
    from opx.learning.matching import PatternMatcher
    from opx.learning.patterns import PatternStore
    from opx.learning.projects import LearningProjects
    from opx.learning.rules import LearningRules
    from opx.learning.staging import Staging
    from opx.ports import Clock
    from opx.retrieval.readers import ProjectRegistry
    from opx.tenants.clients import ClientRegistry

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CheckpointParts:
    """What a checkpoint works with. `manager` puts documents into a scope, `matcher` compares with its patterns, `warn` has
    answers there warn of what an entry says."""

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


@dataclass(slots=True)
class TakingIn:
    """One checkpoint that is under way."""

    _parts: CheckpointParts
    _shared: Scope
    _matcher: PatternMatcher = field(init=False)
    _manager: IngestionManager = field(init=False)
    _taken_in: int = 0
    _warnings: int = 0
    _new: set[str] = field(default_factory=set)
    _confirmed: set[str] = field(default_factory=set)
    _refused: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._matcher = self._parts.matcher(self._shared.key)
        self._manager = self._parts.manager(self._shared)

    def take_in(self, entries: Sequence[StagingEntry]) -> None:
        """Take in those of the entries that are ready."""
        ready = sorted(
            (one for one in entries if one.state is EntryState.READY), key=lambda one: (one.timestamp, one.id)
        )
        decided = self._decided([one for one in ready if problem_of(one)])
        groups: dict[str, list[StagingEntry]] = {}
        for entry in ready:
            groups.setdefault(decided.get(entry.id, ""), []).append(entry)
        for pattern_id, group in groups.items():
            try:
                self._take_in_group(pattern_id, group)
            except ClientRemovedError:
                raise
            except InvalidInputError as exc:  # a text that no document can have
                self._refused.update((one.id, str(exc)) for one in group)

    def finish(self) -> None:
        """Have the pipeline take in what was put, where this process does that."""
        for outcome in self._manager.work():
            if outcome.error:
                log.warning("%s could not be taken in: %s", outcome.object_key, outcome.reason)

    def report(self, project: str, kind: CheckpointType) -> CheckpointReport:
        """What was done so far."""
        return CheckpointReport(
            project_id=project,
            checkpoint_type=kind,
            taken_in=self._taken_in,
            patterns_new=len(self._new),
            patterns_confirmed=len(self._confirmed - self._new),
            warnings=self._warnings,
            refused=tuple(Refusal(entry, reason) for entry, reason in self._refused.items()),
        )

    def _decided(self, entries: Sequence[StagingEntry]) -> dict[str, str]:
        """The pattern that each entry belongs to, by the entry's id; written down where it is new."""
        scope, patterns = self._shared.key, self._parts.patterns
        keys = {entry.id: key_of(entry) for entry in entries}
        known = patterns.decided(scope, list(keys.values()))
        self._matcher.prepare(entry for entry in entries if keys[entry.id] not in known)
        for entry in entries:
            seed, key = seed_of(scope, entry), keys[entry.id]
            if key not in known:
                known[key] = self._decide(entry, seed, key)
            if known[key] == seed.pattern_id:
                self._matcher.made(seed)
        return {entry.id: known[keys[entry.id]] for entry in entries}

    def _decide(self, entry: StagingEntry, seed: Pattern, key: str) -> str:
        patterns, alike = self._parts.patterns, self._matcher.alike(entry)
        if alike is None:
            patterns.announce(seed)
        return patterns.decide(seed.scope_key, key, (alike or seed).pattern_id)

    def _take_in_group(self, pattern_id: str, entries: Sequence[StagingEntry]) -> None:
        if pattern_id:
            self._count(pattern_id, entries)
        warned = [entry for entry in entries if _warns(entry)]
        for entry in warned:
            source, record = warning_document(entry)
            self._manager.put_document(WARNINGS, record, {"source": source.rpartition("/")[2]})
            self._parts.warn(self._shared, entry)
        now = iso_time(self._parts.clock())
        taken = {entry.id for entry in entries if self._parts.staging.take_in(entry, pattern_id, now)}
        self._taken_in += len(taken)
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
        self._manager.put_document(CATEGORY, record_of(pattern), {"source": source})


def _warns(entry: StagingEntry) -> bool:
    """Whether it says what came of something that didn't help."""
    return bool(entry.effect) and not entry.worked
