"""What somebody tells of an outcome, checked and cleaned."""

from __future__ import annotations

from dataclasses import dataclass, fields

from opx.domain.outcomes import OutcomeResult
from opx.errors import InvalidInputError
from opx.learning.fields import cleaned_line

_LONGEST = {"receipt_id": 64, "section": 500, "step": 1000, "incident": 100, "note": 2000, "occurrence": 200}


@dataclass(frozen=True, slots=True)
class Telling:
    """What somebody tells. Texts are cut of what nobody can see, and secrets in them are masked.

    Raises `InvalidInputError` for an unknown result, and for a text that is none or too long.
    """

    result: OutcomeResult
    section: str = ""
    step: str = ""
    incident: str = ""
    note: str = ""
    occurrence: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "result", result_of(self.result))
        for one in fields(self)[1:]:
            object.__setattr__(self, one.name, checked_text(one.name, getattr(self, one.name)))


def result_of(value: OutcomeResult | str) -> OutcomeResult:
    """The result of this name. Raises `InvalidInputError`."""
    try:
        return OutcomeResult(value)
    except ValueError:
        raise InvalidInputError(f"unknown result {str(value)[:60]!r}; allowed: {', '.join(OutcomeResult)}") from None


def checked_text(name: str, value: object) -> str:
    """A field's text, on one line and cleaned. Raises `InvalidInputError`."""
    return cleaned_line(name, value, _LONGEST[name])
