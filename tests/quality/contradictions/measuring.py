"""Runs the detection on labelled pairs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, convert

from opx.text.procedures.effects import effect_table
from opx.text.procedures.outline import outline_of
from opx_quality.contradicting.finding import Contradiction, StatedDocument, Subject, contradictions
from opx_quality.contradicting.statements import statements_of


class Page(Struct, frozen=True):
    title: str
    text: str
    services: tuple[str, ...] = ()


class Pair(Struct, frozen=True):
    contradicts: bool
    why: str
    first: Page
    second: Page


def pairs(name: str) -> Iterator[Pair]:
    lines = (Path(__file__).parent / f"{name}.jsonl").read_text("utf-8").splitlines()
    found: Iterator[Any] = map(json.loads, lines)
    return (convert(one, Pair) for one in found)


def judged(pair: Pair) -> list[Contradiction]:
    table = effect_table()

    def stated(number: int, page: Page) -> StatedDocument:
        outline = outline_of(str(number), page.title, page.text)
        statements = statements_of(outline, lambda text, language: table.classify(text, language).effect == "read")
        return StatedDocument(number, Subject.of(page.title, outline.alerts, page.services), tuple(statements))

    return list(contradictions([stated(0, pair.first), stated(1, pair.second)]))


def figures(name: str) -> dict[str, float]:
    """Precision and recall over pairs."""
    results = [(pair.contradicts, bool(judged(pair))) for pair in pairs(name)]
    found = sum(is_found for _, is_found in results)
    right = sum(both == (True, True) for both in results)
    wanted = sum(contradicts for contradicts, _ in results)
    return {"pairs": len(results), "precision": right / found, "recall": right / wanted}
