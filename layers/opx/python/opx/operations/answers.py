"""The text that agents read of an answer, and what all of them begin with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Annotated, Self

from msgspec import Meta

Notes = Annotated[tuple[str, ...], Meta(description="What the answer lacks, and why.")]


class Paragraphs(ABC):
    """The text and the size of an `AgentReply`: paragraphs, all of which are always shown unless it can be shortened."""

    __slots__ = ()

    def text(self) -> str:
        return "\n\n".join(self._paragraphs())

    @abstractmethod
    def _paragraphs(self) -> Iterator[str]: ...

    def shortened(self) -> Self | None:
        return None


def noted(notes: Sequence[str], before: str = "", after: str = "") -> Iterator[str]:
    """Notes in one paragraph, between others; of what is empty there is none."""
    yield from filter(None, (before, "\n".join(f"Note: {note}" for note in notes), after))


def left_out(count: int, what: str) -> tuple[str, ...]:
    """A note of what was dropped for the answer's size, if anything was."""
    return (f"{count} more {what} were left out, as the answer would be too large",) if count else ()
