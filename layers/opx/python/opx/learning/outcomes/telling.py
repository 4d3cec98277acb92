"""What somebody tells of an outcome, checked and cleaned."""

from __future__ import annotations

from dataclasses import dataclass, fields

from opx.domain.ids import normalise
from opx.domain.outcomes import OutcomeResult
from opx.errors import InvalidInputError
from opx.hygiene import invisible
from opx.hygiene.secrets import mask

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
    """A field's text, cleaned. Raises `InvalidInputError`."""
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} must be a text, not {type(value).__name__}")
    if len(value) > _LONGEST[name]:
        raise InvalidInputError(f"{name} may have {_LONGEST[name]:,} characters, not {len(value):,}")
    return clean_line(value)


def clean_line(text: str) -> str:
    """On one line, without what nobody can see, secrets masked."""
    whole = normalise(text.encode("utf-8", "replace").decode().replace("\0", " "))
    visible, _ = invisible.removed(whole)
    masked, _ = mask(visible)
    return " ".join(masked.split())
