"""Checkpoints: what was captured and is verified becomes patterns and warnings, each entry once.

Every step may be done again. An entry's pattern is decided and written down before anything is counted; a document is put
before the head that says so; a head before the rows of what it counts; and an entry is marked as taken in last of all. Who
dies leaves entries that are ready, and the next checkpoint finds what was done. Two at once do the same work, and what one
of them did, the other finds done.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain, islice

from opx.domain.learning import CheckpointReport, CheckpointType, EntryState, StagingEntry
from opx.domain.record import replace
from opx.domain.scopes import Identity, Scope
from opx.errors import InvalidInputError
from opx.learning.projects import project_of, unknown_project
from opx.learning.taking_in import CheckpointParts, TakingIn

MAX_WAITING = 1000
"""Ids of unverified entries that a report names."""

_BATCH = 100


class CheckpointEmbeddingService:
    """Takes in what one identity captured."""

    def __init__(self, identity: Identity, parts: CheckpointParts) -> None:
        self._identity = identity
        self._parts = parts

    def process_checkpoint(
        self, project_id: str, checkpoint_type: str = CheckpointType.MANUAL.value
    ) -> CheckpointReport:
        """Take in what was captured for a project and is verified. What nobody verified stays, and is named.

        Raises `UnknownProjectError`, `InvalidInputError` for another type of checkpoint, `ClientRemovedError`, and
        `StoreUnavailableError`: then what was not taken in is still there for the next checkpoint. An entry that can't
        be taken in is in the report, and is tried again the next time.
        """
        began = time.monotonic()
        kind = _type(checkpoint_type)
        project = project_of(self._identity, project_id)
        scope = Scope(self._identity.client_id, project_id=self._identity.project_id)
        self._parts.clients.check(scope.client_id)
        self._require_known(scope, project)
        shared = self._parts.rules.shared(scope, self._parts.registry.group_of)
        run = TakingIn(self._parts, shared)
        for ids in self._ready(scope, project):
            run.take_in(self._parts.staging.get_many(ids))
        waiting = self._waiting(scope, project)
        run.take_in(waiting)  # what an index has not seen to be verified
        run.finish()
        return replace(
            run.report(project, kind),
            waiting=tuple(entry.id for entry in waiting if entry.state is EntryState.WAITING),
            took_ms=(time.monotonic() - began) * 1000,
        )

    def _waiting(self, scope: Scope, project: str) -> list[StagingEntry]:
        """What is not verified, as an index has it, the oldest first."""
        found = self._parts.staging.ids(scope.key, project, EntryState.WAITING)
        return self._parts.staging.get_many(list(islice(found, MAX_WAITING)))

    def _ready(self, scope: Scope, project: str) -> Iterator[list[str]]:
        """Ids of what is ready, also of what gets ready meanwhile, each once, some at a time."""
        seen: set[str] = set()
        while True:
            found = [one for one in self._parts.staging.ids(scope.key, project, EntryState.READY) if one not in seen]
            if not found:
                return
            seen.update(found)
            yield from (found[start : start + _BATCH] for start in range(0, len(found), _BATCH))

    def _require_known(self, scope: Scope, project: str) -> None:
        """Raise `UnknownProjectError` unless something was captured for the project, or it is one of the client's."""
        if self._parts.projects.is_known(scope.key, project):
            return
        client, own = scope.client_id, scope.project_id
        registered = self._parts.registry.projects(client) if client else iter(())
        names = (place.project_id for place in registered if not own or place.project_id == own)
        known = list(chain(self._parts.projects.all(scope.key), names))
        if project not in known:
            raise unknown_project(project, iter(sorted(set(known))))


def _type(name: str) -> CheckpointType:
    try:
        return CheckpointType(name)
    except ValueError as exc:
        raise InvalidInputError(
            f"unknown checkpoint_type {str(name)[:60]!r}; there are: {', '.join(CheckpointType)}"
        ) from exc
