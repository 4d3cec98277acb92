"""Operations that merge and split patterns."""

from __future__ import annotations

from typing import Annotated

from opx.domain.knowledge import PATTERNS_CATEGORY
from opx.domain.learning import Pattern, PatternChange
from opx.domain.policy import Action
from opx.domain.record import about
from opx.domain.requests import FilledText, Request, Text
from opx.domain.scopes import scope_of_key
from opx.errors import PatternNotFoundError
from opx.operations.context import Context
from opx.operations.corpus import channel_of
from opx.operations.registry import Function, operation

CHANGES = (Action.QUERY_PATTERNS, Action.WRITE)
"""For orchestrators that may write."""

MAX_SPLIT = 50
"""Entries that one call splits off."""

PatternId = Annotated[FilledText, about("The id of a pattern.")]


class MergePatterns(Request, frozen=True):
    pattern_id: PatternId
    other_id: Annotated[FilledText, about("The pattern that becomes a part of it.")]


@operation(http="POST /learning/patterns/{patternId}/merges", function=Function.MANAGE, action=CHANGES)
def merge_patterns(context: Context, request: MergePatterns) -> PatternChange:
    """Count everything of another pattern for this one; for orchestrators that may write. A split undoes it.

    Raises `PatternNotFoundError`, and `InvalidInputError` for patterns of different types or gates.
    """
    merging = context.system.learning.merging(_scope_of(context, request.pattern_id))
    return merging.merge(request.pattern_id, request.other_id)


class SplitPattern(Request, frozen=True):
    pattern_id: PatternId
    ids: Annotated[
        tuple[FilledText, ...],
        about("A pattern that was merged into it, or entries counted for it.", min_length=1, max_length=MAX_SPLIT),
    ]


@operation(http="POST /learning/patterns/{patternId}/splits", function=Function.MANAGE, action=CHANGES)
def split_pattern(context: Context, request: SplitPattern) -> PatternChange:
    """Take a merged pattern, or entries that were counted wrongly, out of a pattern; for orchestrators that may write. A
    merge undoes it.

    Raises `PatternNotFoundError`, and `InvalidInputError` for ids that aren't of the pattern.
    """
    merging = context.system.learning.merging(_scope_of(context, request.pattern_id))
    return merging.split(request.pattern_id, request.ids)


class RetirePattern(Request, frozen=True):
    pattern_id: PatternId
    because: Annotated[Text, about("The reason; left out, the pattern is used again.")] = ""


@operation(http="POST /learning/patterns/{patternId}/retirement", function=Function.MANAGE, action=CHANGES)
def retire_pattern(context: Context, request: RetirePattern) -> Pattern:
    """Retire a pattern, or use it again; for orchestrators that may write. No query returns a retired one, and its document
    is withdrawn; its entries are counted on.

    Raises `PatternNotFoundError`, and `HeldError` for a document under a hold.
    """
    from opx.learning.pattern_rows import record_of

    scope_key = _scope_of(context, request.pattern_id)
    scope = scope_of_key(scope_key)
    manager = context.system.ingestion.manager_of(scope).by(channel_of(context))
    because = request.because.strip()
    known = context.system.learning.patterns.head(scope_key, request.pattern_id)
    if known and because:
        context.system.lifecycle.check_removal([scope.prefix + known.source])
    pattern = context.system.learning.patterns.retire(scope_key, request.pattern_id, because)
    if pattern is None:
        raise PatternNotFoundError(f"no pattern has the id {request.pattern_id!r}")
    if because:
        manager.delete_object(scope.prefix + pattern.source)
    elif pattern.success_count:
        manager.put_document(PATTERNS_CATEGORY, record_of(pattern), {"source": pattern.source.rpartition("/")[2]})
    return pattern


def _scope_of(context: Context, pattern_id: str) -> str:
    """The scope of a pattern that the caller may see."""
    visible = context.reader.visible
    patterns = context.system.learning.patterns
    found = next((scope for scope in visible if patterns.head(scope, pattern_id)), None)
    if found is None:
        raise PatternNotFoundError(f"no pattern has the id {pattern_id!r}")
    return found
