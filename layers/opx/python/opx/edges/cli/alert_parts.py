"""Splits exports of alert rules that are too large for one document into parts, which become documents of their own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from opx.formats.data.alert_rules import MAX_BYTES, AlertRule, RuleFile
from opx.ingestion.files import FileToIngest
from opx.operations.alert_bindings import MAX_RULES

MAX_IMPORT_BYTES = 256 * 1024 * 1024
"""Size of the largest export that is read, of about a million alerts."""

RULES_A_PART = MAX_RULES // 2
FOLDER = ".parts/"


def must_be_split(found: RuleFile, size: int) -> bool:
    """True if a document can't have all of these rules, or is too large."""
    return size > MAX_BYTES or len(found.rules) > 2 * RULES_A_PART


def parts_of(step: FileToIngest, found: RuleFile, folder: Path) -> Iterator[tuple[FileToIngest, RuleFile]]:
    """The parts of an export as files in `folder`, named after it, so that another import replaces them."""
    for number, first in enumerate(range(0, len(found.rules), RULES_A_PART), start=1):
        rules = found.rules[first : first + RULES_A_PART]
        path = folder / f"{step.path.name}-{number:04}.json"
        path.write_text(json.dumps({"alerts": list(map(_entry, rules))}, ensure_ascii=False))
        yield FileToIngest(path, f"{step.source}{FOLDER}{number:04}.json"), RuleFile(rules)


def stale_parts(step: FileToIngest, known: Iterable[str], parts: int) -> list[str]:
    """Files that an earlier import made of this one: parts beyond those of now, and the whole file if it is split now."""
    source = step.source.lstrip("/")
    kept = {f"{source}{FOLDER}{number:04}.json" for number in range(1, parts + 1)} or {source}
    return [file for file in known if (file == source or file.startswith(source + FOLDER)) and file not in kept]


def _entry(rule: AlertRule) -> Mapping[str, Any]:
    texts = {name: getattr(rule, name) for name in ("name", "severity", "summary", "expr", "runbook", "owner")}
    return {**{name: text for name, text in texts.items() if text}, "labels": dict(rule.labels)}
