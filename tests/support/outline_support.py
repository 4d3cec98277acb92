"""Outlines of pages, and the parts of them that tests compare."""

from __future__ import annotations

from opx.domain.procedures import Outline, Step
from opx.text.procedures.outline import outline_of


def outlined(text: str, title: str = "Disk full") -> Outline:
    return outline_of("d1", title, text)


def titles(text: str) -> list[str]:
    return [step.title for step in outlined(text).steps]


def only_step(text: str) -> Step:
    (step,) = outlined(text).steps
    return step
