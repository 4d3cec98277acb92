"""Warnings of steps without effect or with harm: documents for search, and rows for matching steps in answers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

from opx.domain.ids import normalise, shortened, stable_hash
from opx.domain.knowledge import WARNINGS_CATEGORY
from opx.domain.learning import StagingEntry, TriedEffect
from opx.domain.record import Record
from opx.domain.scopes import Scope
from opx.learning.outcome_store import WARNINGS, KnownScopes, warned_partition
from opx.ports import Clock, Table
from opx.ports.tables import readable, row_of

log = logging.getLogger(__name__)

MAX_TRIED = 5000
"""Tried steps of a scope that answers are matched with."""

KEPT_DAYS = 3 * 365
"""Longer than the retention of the category's documents: a warning holds while its document exists."""

_FOLLOWED = "the steps of: "
_TITLE_CHARACTERS = 120
_DAY_SECONDS = 86_400


class TriedStep(Record, frozen=True):
    """A step that an entry warns about, and its row. `source` names the document of the warning in the corpus, below its
    scope's folder; `reference` is the key or source of the document that the step comes from, "" if unknown."""

    entry_id: str
    source: str
    step: str
    effect: TriedEffect
    incident: str
    problem: str
    technology: str
    reference: str
    at: str
    whole: bool
    """True if it stands for all steps of a document, so that only the reference matches it."""


def followed(title: str, section: str) -> str:
    """Step text for an outcome of following a document, without the step that caused it."""
    return _FOLLOWED + " > ".join(part for part in (title, section) if part)


def warning_document(entry: StagingEntry) -> tuple[str, dict[str, Any]]:
    """Source of the document in the corpus, below its scope's folder, and its record (`learning/warnings` in
    knowledge.yaml). The same warning of the same incident is one document."""
    effect, tried = _effect_of(entry), list(entry.solution_steps)
    first = " ".join(tried[0].split()) if tried else entry.reference
    phrase = effect.phrase
    where = f"Tried in {entry.incident}" if entry.incident else "Tried before"
    record = {
        "id": _warning_id(entry),
        "title": shortened(f"{phrase[:1].upper()}{phrase[1:]}: {first}", _TITLE_CHARACTERS),
        "warning": f"{where}: it {phrase}. Do not repeat it without a reason why it would be different this time.",
        "tried": tried,
        "problem": entry.failure_description,
        "effect": effect.value,
        "incident": entry.incident,
        "technology": entry.technology,
        "created_at": entry.timestamp,
    }
    return warning_source(entry), {name: value for name, value in record.items() if value}


def warning_source(entry: StagingEntry) -> str:
    """Source of the warning's document in the corpus, below its scope's folder."""
    return f"documents/{WARNINGS_CATEGORY}/{_warning_id(entry)}.json"


class StepWarnings:
    """Stores rows of tried steps."""

    def __init__(self, table: Table, known: KnownScopes, clock: Clock) -> None:
        self._table = table
        self._known = known
        self._clock = clock

    def enter(self, scope: Scope, entry: StagingEntry) -> None:
        """Stores the entry's steps, so that answers to readers of `scope` warn about them. Idempotent."""
        expires_at = int(self._clock()) + KEPT_DAYS * _DAY_SECONDS
        self._table.put_many(
            {
                "place": warned_partition(scope.key),
                "entry": f"{entry.id}#{at:03d}",
                **_tried(entry, step).to_json(),
                "expiresAt": expires_at,
            }
            for at, step in enumerate(entry.solution_steps)
        )
        self._known.note(scope.key, WARNINGS, mark=stable_hash(entry.id, self._clock()))

    def tried(self, scope_key: str) -> list[TriedStep]:
        """The tried steps of a scope, at most `MAX_TRIED`."""
        rows = islice(self._table.query(warned_partition(scope_key)), MAX_TRIED + 1)
        found = list(readable(partial(row_of, TriedStep), rows))
        if len(found) > MAX_TRIED:
            log.warning("%s has more than %d warnings of steps; the rest is left out", scope_key, MAX_TRIED)
        return found[:MAX_TRIED]


def _warning_id(entry: StagingEntry) -> str:
    content = (*entry.solution_steps, entry.failure_description, entry.technology, entry.reference)
    words = [" ".join(normalise(text).casefold().split()) for text in content]
    return stable_hash("warning", words, _effect_of(entry).value, entry.incident)


def _effect_of(entry: StagingEntry) -> TriedEffect:
    return TriedEffect(entry.effect) if entry.effect else TriedEffect.NO_EFFECT


def _tried(entry: StagingEntry, step: str) -> TriedStep:
    return TriedStep(
        entry_id=entry.id,
        source=warning_source(entry),
        step=step,
        effect=_effect_of(entry),
        incident=entry.incident,
        problem=entry.failure_description,
        technology=entry.technology,
        reference=entry.reference,
        at=entry.timestamp,
        whole=bool(entry.reference) and step.startswith(_FOLLOWED),
    )


def incidents_of(tried: Iterator[TriedStep]) -> tuple[str, ...]:
    """Distinct incidents, the latest first."""
    latest = sorted(tried, key=lambda one: one.at, reverse=True)
    return tuple(dict.fromkeys(one.incident for one in latest if one.incident))
