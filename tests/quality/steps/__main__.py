"""Prints how many steps and commands are found, and how many of those found are none."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opx.domain.procedures import Outline, Step
from opx.text.procedures.outline import outline_of

PAGES = Path(__file__).parent / "pages.jsonl"


@dataclass
class Score:
    steps: int = 0
    found: int = 0
    wrong: int = 0
    commands: int = 0
    commands_found: int = 0

    def __str__(self) -> str:
        recall, precision = self.found / self.steps, self.found / max(self.found + self.wrong, 1)
        commands = self.commands_found / max(self.commands, 1)
        return f"{self.steps} steps, recall {recall:.3f}, precision {precision:.3f}; commands {commands:.3f}"


def main(folder: Path) -> None:
    texts = {page["_id"]: page for page in _lines(folder / "corpus.jsonl")}
    scores = {"even": Score(), "odd": Score(), "all": Score()}
    for number, page in enumerate(_lines(PAGES)):
        of_page = texts[page["page"]]
        outline = outline_of("", of_page["title"], of_page["text"])
        for name in ("all", "odd" if number % 2 else "even"):
            judge(outline, page["steps"], scores[name])
    for name, score in scores.items():
        print(f"{name:5} {score}")


def judge(outline: Outline, labelled: list[dict[str, Any]], score: Score) -> None:
    """Counts into `score` what is found of one page."""
    used: set[int] = set()
    for one in sorted(labelled, key=lambda one: bool(one.get("optional"))):
        first = _text(outline, one)
        match = next(
            (step for step in outline.steps if step.number not in used and _is(outline, step, one["start"], first)),
            None,
        )
        if match:
            used.add(match.number)
        if one.get("optional"):
            continue
        score.steps += 1
        score.found += match is not None
        commands = "\n".join(command.text for command in match.commands) if match else ""
        for command in one.get("commands", ()):
            score.commands += 1
            score.commands_found += _text(outline, command).lstrip("$# ").strip()[:40] in commands
    score.wrong += len(outline.steps) - len(used)


def _is(outline: Outline, step: Step, start: int, first: str) -> bool:
    """True if a step begins at an offset: within its first two lines, or by its title."""
    if not step.start <= start < step.end:
        return False
    words = [re.sub(r"\W", "", text)[:15] for text in (step.title, first)]
    return outline.text.count("\n", step.start, start) <= 1 or words[0] == words[1]


def _text(outline: Outline, one: dict[str, Any]) -> str:
    text = outline.text[one["start"] : one["end"]]
    if hashlib.sha256(text.encode()).hexdigest()[:12] != one["sha256"]:
        raise SystemExit("this corpus has other pages than those that were labelled")
    return text


def _lines(path: Path) -> Iterator[Any]:
    return map(json.loads, path.read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
