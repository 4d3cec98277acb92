"""Builds replies: pages of ordered items with tokens for the next page, within the size of a Lambda reply, and their text."""

from __future__ import annotations

import base64
import binascii
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Annotated, Self, TypeVar

from opx.domain.record import about, to_json
from opx.errors import InvalidInputError

T = TypeVar("T")

MAX_PAGE = 500
PAGE_BYTES = 4_000_000
"""Bytes of a page as Lambda counts them, which leaves a third of its limit for the rest of the reply."""

Limit = Annotated[int, about("How many at most.", ge=1, le=MAX_PAGE)]
After = Annotated[str, about("`next` of the previous page; left out for the first page.", max_length=4096)]
Next = Annotated[str, about("Value of `after` for the next page; absent on the last.")]


def page_of(
    items: Iterable[T],
    *,
    order: Callable[[T], tuple[str, ...]],
    name: Callable[[T], str],
    limit: int,
    after: tuple[str, ...],
) -> tuple[tuple[T, ...], str]:
    """The first items after the position `after` (of `read_token`), at most `limit` and as many as fit, and the token of
    the last one, "" if there are no more.

    `items` must be sorted by `order`, in either direction, and begin no later than with the items whose `order` is that
    of `after`. Stores return items of equal order in any sequence: they are sorted by `name`, which is unique among them.
    """
    found, more = fitting(_behind(items, order, name, after), limit)
    return found, token(*order(found[-1]), name(found[-1])) if more else ""


def fitting(items: Iterable[T], most: int = 0) -> tuple[tuple[T, ...], bool]:
    """The first items, at most `most` (0: any number) and as many as fit, and true if there are more. Includes at least
    one item, if there is any."""
    found: list[T] = []
    room = PAGE_BYTES
    for item in items:
        room -= sent_bytes(json.dumps(to_json(item), ensure_ascii=False))
        if found and (room < 0 or len(found) == most):
            return tuple(found), True
        found.append(item)
    return tuple(found), False


def sent_bytes(body: str) -> int:
    """Upper bound of a body's size as Lambda counts it: it is encoded as a JSON string once more."""
    return len(json.dumps(body))


def _behind(
    items: Iterable[T], order: Callable[[T], tuple[str, ...]], name: Callable[[T], str], after: tuple[str, ...]
) -> Iterator[T]:
    for position, group in groupby(items, order):
        ordered = sorted(group, key=name)
        if position == after[:-1]:
            ordered = [item for item in ordered if name(item) > after[-1]]
        yield from ordered


def token(*parts: str) -> str:
    """An opaque token for a position among items."""
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode("ascii").rstrip("=")


def read_token(text: str, parts: int) -> tuple[str, ...]:
    """The parts of a token, `()` for "". Raises `InvalidInputError` for a malformed token."""
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
    return InvalidInputError(f"{text[:100]!r} is not a page token: give the `next` of the previous page")


# -- text of replies

Notes = Annotated[tuple[str, ...], about("Limits of the answer, and their reasons.")]


class Paragraphs(ABC):
    """Base of an `AgentReply`: its text in paragraphs, all of which are shown unless `shortened` is implemented."""

    __slots__ = ()

    def text(self) -> str:
        return "\n\n".join(self._paragraphs())

    @abstractmethod
    def _paragraphs(self) -> Iterator[str]: ...

    def shortened(self) -> Self | None:
        return None


def noted(notes: Sequence[str], before: str = "", after: str = "") -> Iterator[str]:
    """Notes in one paragraph, between two others; empty ones are left out."""
    yield from filter(None, (before, "\n".join(f"Note: {note}" for note in notes), after))


def left_out(count: int, what: str) -> tuple[str, ...]:
    """A note of the number of things dropped for the answer's size; none for 0."""
    return (f"{count} more {what} were left out, as the answer would be too large",) if count else ()
