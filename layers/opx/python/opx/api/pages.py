"""Pages that fit into a reply, whatever is on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from opx.api.fields import Json
from opx.api.http_events import sent_bytes
from opx.knowledge_base import Page

T = TypeVar("T")

PAGE_BYTES = 4_000_000
"""Of a page as Lambda counts it, which leaves a third of what fits for the rest of the reply."""


def fitting_page(ask: Callable[[int], Page[T]], limit: int, to_json: Callable[[T], Json]) -> tuple[list[Json], str]:
    """The items of a page of up to `limit`, of which `ask` is asked for fewer until they fit, and its `next`."""
    while True:
        page = ask(limit)
        items = [to_json(item) for item in page.items]
        if limit == 1 or sum(map(_size, items)) <= PAGE_BYTES:
            return items, page.next
        limit //= 2


def taken(items: Iterable[T], to_json: Callable[[T], Any], most: int) -> tuple[list[Any], bool]:
    """The first items, as many as fit, and whether there are more. There is always one, if there is any."""
    found: list[Any] = []
    room = PAGE_BYTES
    for item in items:
        written = to_json(item)
        room -= _size(written)
        if found and (room < 0 or len(found) == most):
            return found, True
        found.append(written)
    return found, False


def _size(value: object) -> int:
    return sent_bytes(json.dumps(value, ensure_ascii=False))
