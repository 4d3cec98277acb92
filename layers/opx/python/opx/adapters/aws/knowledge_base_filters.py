"""A `SearchFilter` as a knowledge base's `RetrievalFilter`. Pure functions.

A group holds 2 to 5 filters and may be in one other group, no deeper (Bedrock user guide, "Configure and customize
queries and response generation"; at least 2: the API's service model).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from opx.adapters.aws.knowledge_base_objects import FILTER_ATTRIBUTES, TAGS_ATTRIBUTE
from opx.ports import SearchFilter

Filter = dict[str, Any]
MAX_GROUP = 5


def retrieval_filters(where: SearchFilter) -> Iterator[Filter]:
    """Filters that together let through what `where` does: one, unless it has more tags than fit into a group.

    None if there is no scope: what is nobody's to see is not searched.
    """
    if not where.scopes:
        return
    single = [_is_in(name, getattr(where, part)) for part, name in FILTER_ATTRIBUTES.items() if getattr(where, part)]
    every = _all_of(single)
    for tags in _portions(where.tags):
        yield {"andAll": [every, _any_of([_has(tag) for tag in tags])]}
    if not where.tags:
        yield every


def _is_in(name: str, values: Sequence[str]) -> Filter:
    return {"in": {"key": name, "value": list(values)}}


def _has(tag: str) -> Filter:
    return {"listContains": {"key": TAGS_ATTRIBUTE, "value": tag}}


def _all_of(filters: list[Filter]) -> Filter:
    return {"andAll": filters} if len(filters) > 1 else filters[0]


def _any_of(filters: list[Filter]) -> Filter:
    return {"orAll": filters} if len(filters) > 1 else filters[0]


def _portions(tags: Sequence[str]) -> Iterator[Sequence[str]]:
    return (tags[start : start + MAX_GROUP] for start in range(0, len(tags), MAX_GROUP))
