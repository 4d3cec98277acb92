"""Which state of the corpus an answer is from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class CorpusState:
    """`version` is another text after each change of what can be found, and only then; "" where nobody counts.

    `settled`: every change that `version` counts can be found by now. Where that isn't so, two questions of one version
    may find different things.
    """

    version: str
    settled: bool = True


class CorpusVersion(Protocol):
    """Tells the state of the corpus. Cheap enough to be asked with every question."""

    def current(self) -> CorpusState:
        """The state now, not older than the call. Raises `StoreUnavailableError`."""
