"""A `SearchFilter` as a knowledge base's `RetrievalFilter`, and what of it is left to look at. Pure functions.

A group holds 2 to 5 filters and may be in one other group, no deeper (Bedrock user guide, "Configure and customize
queries and response generation"; at least 2: the API's service model). There is none for words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from math import prod
from typing import Any

from opx.adapters.aws.knowledge_base_objects import DAY_ATTRIBUTE, FILTER_ATTRIBUTES, LIST_ATTRIBUTES
from opx.domain.results import IndexedChunk
from opx.ports import SearchFilter
from opx.text.fields import TITLE_FIELD, WHOLE_FIELD, analysed_fields

Filter = dict[str, Any]
MAX_GROUP = 5
MAX_FILTERS = 100
"""Of one search: lists of more values than that takes are not searched to their end, as each is a request of its own."""


def retrieval_filters(where: SearchFilter) -> list[Filter]:
    """Filters that together let through what `where` does, but for terms and the second lists, of which see `passes`:
    one, unless it lists more tags or services than fit into a group.

    None if there is no scope: what is nobody's to see is not searched. `MAX_FILTERS` at most.
    """
    if not where.scopes:
        return []
    every = [_is_in(name, getattr(where, part)) for part, name in FILTER_ATTRIBUTES.items() if getattr(where, part)]
    whole = [group for group in (_all_of(every), _all_of(list(_days(where)))) if group]
    lists = [list(_any_of_list(name, getattr(where, part))) for part, name in LIST_ATTRIBUTES.items()]
    combined = islice(product(*(found for found in lists if found)), MAX_FILTERS)
    return [_all_of([*whole, *several]) for several in combined]


def filter_note(where: SearchFilter) -> str:
    """What a reader should know of how a filter is applied; "" if there is nothing."""
    if prod(-(-len(getattr(where, part)) // MAX_GROUP) or 1 for part in LIST_ATTRIBUTES) > MAX_FILTERS:
        return "the knowledge base was asked for some of the tags and services only: there are too many"
    if where.has_terms or where.also_tags or where.also_services:
        return "the knowledge base can't filter by words: only its best results were looked at for them"
    return ""


def passes(where: SearchFilter, indexed: IndexedChunk) -> bool:
    """Whether a result passes what the service was not asked to see to."""
    for wanted, has in ((where.also_tags, indexed.chunk.tags), (where.also_services, indexed.services)):
        if wanted and not set(wanted) & set(has):
            return False
    if not where.has_terms:
        return True
    fields = {name: set(terms) for name, terms in analysed_fields(indexed.chunk, indexed.language).items()}
    title, whole = fields[TITLE_FIELD], fields[WHOLE_FIELD]
    return (
        all(title.intersection(group) for group in where.title_terms)
        and all(whole.intersection(group) for group in where.required_terms)
        and whole.isdisjoint(where.excluded_terms)
    )


def _is_in(name: str, values: Sequence[str]) -> Filter:
    return {"in": {"key": name, "value": list(values)}}


def _days(where: SearchFilter) -> Iterator[Filter]:
    if where.updated_from is not None:
        yield {"greaterThanOrEquals": {"key": DAY_ATTRIBUTE, "value": where.updated_from}}
    if where.updated_before is not None:
        yield {"lessThan": {"key": DAY_ATTRIBUTE, "value": where.updated_before}}


def _any_of_list(name: str, values: Sequence[str]) -> Iterator[Filter]:
    """Groups that together hold for every list with one of the values."""
    for start in range(0, len(values), MAX_GROUP):
        has = [{"listContains": {"key": name, "value": value}} for value in values[start : start + MAX_GROUP]]
        yield {"orAll": has} if len(has) > 1 else has[0]


def _all_of(filters: list[Filter]) -> Filter:
    """One filter for all; {} for none."""
    if len(filters) > 1:
        return {"andAll": filters}
    return filters[0] if filters else {}
