"""Pages of what a store gives in order, with tokens that say where the next one begins."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeVar

from opx.errors import InvalidInputError
from opx.knowledge_base import MAX_PAGE, Page

T = TypeVar("T")


def page_of(
    items: Iterable[T],
    *,
    order: Callable[[T], tuple[str, ...]],
    name: Callable[[T], str],
    limit: int,
    after: tuple[str, ...],
) -> Page[T]:
    """The first `limit` items behind the one that `after` (of `read_token`) names.

    `items` must be sorted by `order`, in whatever direction, and begin no later than with the items whose `order` is
    that of `after`. Stores give equal ones in no particular order: they are sorted by `name`, which is unique among
    them. Raises `InvalidInputError` for a limit that isn't 1 to 500.
    """
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidInputError(f"limit must be 1 to {MAX_PAGE}, not {limit}")
    taken: list[T] = []
    for item in _behind(items, order, name, after):
        if len(taken) == limit:
            last = taken[-1]
            return Page(tuple(taken), token(*order(last), name(last)))
        taken.append(item)
    return Page(tuple(taken))


def _behind(
    items: Iterable[T], order: Callable[[T], tuple[str, ...]], name: Callable[[T], str], after: tuple[str, ...]
) -> Iterator[T]:
    for place, group in groupby(items, order):
        ordered = sorted(group, key=name)
        if place == after[:-1]:
            ordered = [item for item in ordered if name(item) > after[-1]]
        yield from ordered


def token(*parts: str) -> str:
    """An opaque text for a place among items."""
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode("ascii").rstrip("=")


def read_token(text: str, parts: int) -> tuple[str, ...]:
    """The parts of a token, `()` for "". Raises `InvalidInputError` for what is none."""
    if not text:
        return ()
    try:
        found = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, binascii.Error, RecursionError) as exc:
        raise _not_a_token(text) from exc
    if not (isinstance(found, Sequence) and len(found) == parts and all(isinstance(part, str) for part in found)):
        raise _not_a_token(text)
    return tuple(found)


def _not_a_token(text: str) -> InvalidInputError:
    return InvalidInputError(f"{text[:100]!r} is not the end of a page: give what `next` of the page before was")
