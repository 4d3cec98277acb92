"""The questions for patterns of one identity, put together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from opx.domain.learning import Pattern
from opx.domain.scopes import Identity, Reader, Scope
from opx.learning.orchestrators import check_orchestrator
from opx.learning.patterns import PatternStore
from opx.learning.query import PatternSearch, RAGQueryService
from opx.runtime.metrics import unreported

if TYPE_CHECKING:
    from opx.services import Services


def pattern_query(services: Services, identity: Identity | None, *, operator: bool) -> RAGQueryService:
    """What this identity may ask. `operator`, or no identity: whoever runs the system, who needn't be named."""
    asked = services.identity_of(identity)
    reader = services.projects.reader(asked)
    search = PatternSearch(
        ask=services.query_service(asked, recorded=False).answer,
        heads=partial(visible_heads, services.patterns, reader),
        check=lambda: None if operator or identity is None else check_orchestrator(services.learning_rules, asked),
        observers=services.records.observers(reader, None, unreported, gaps=False),
    )
    return RAGQueryService(search)


def visible_heads(patterns: PatternStore, reader: Reader, ids: Sequence[str]) -> list[Pattern]:
    """The patterns of these ids, as far as the reader may see them. Where they are shared by default is read first: that
    is nearly always all."""
    shared = {Scope().key, Scope(reader.identity.client_id).key}
    found = patterns.heads([key for key in reader.visible if key in shared], ids)
    seen = {pattern.pattern_id for pattern in found}
    missing = [one for one in ids if one not in seen]
    others = [key for key in reader.visible if key not in shared]
    return [*found, *(patterns.heads(others, missing) if missing and others else ())]
