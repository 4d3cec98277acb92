"""Loads what the example corpus has beside documents: alert rules, captured learnings, and values of baselines."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from opx.domain.learning import CheckpointReport
from opx.domain.requests import read_request
from opx.edges.calling import OperationClient
from opx.edges.cli.output import plural
from opx.operations import of_route
from opx.operations.learning import CaptureEntry, ProcessCheckpoint, capture_entry, process_checkpoint
from opx.runtime.knowledge_file import corpus_path

FOLDERS = ("documents", "inventory", "changes", "alert-rules")
"""Folders of the corpus whose files are documents."""

BATCH = "example-corpus"
"""Id of the values' batch: however often the demo runs on a day, they count once."""


def example_folders() -> list[Path]:
    """The folders of the example corpus, in the checkout or in the package."""
    return [found for name in FOLDERS if (found := corpus_path(name)) is not None]


def load_examples(client: OperationClient) -> str:
    """Adds captured entries with their patterns, and values of baselines. Returns a line that counts them."""
    report = _learn(client, _entries())
    learnt = report.patterns_new if report else 0
    return f"{plural(learnt, 'new pattern')} learnt, {_add_values(client)}"


def _learn(client: OperationClient, entries: list[dict[str, Any]]) -> CheckpointReport | None:
    for entry in entries:
        client.call(capture_entry, read_request(CaptureEntry, entry))
    return client.call(process_checkpoint, ProcessCheckpoint()).report


def _entries() -> list[dict[str, Any]]:
    found = corpus_path("learnings.json")
    return json.loads(found.read_text(encoding="utf-8")) if found else []


def _add_values(client: OperationClient) -> str:
    """Adds values of baselines where they are installed. Returns a phrase that counts them."""
    add = of_route("POST /baselines")
    if add is None:
        return "no values of baselines added: pip install opx-telemetry"
    added = client.call(add.run, add.request(values=_values(), batch_id=BATCH)).added
    return f"{plural(added, 'value')} of baselines added"


def _values() -> tuple[dict[str, Any], ...]:
    found = corpus_path("baselines.csv")
    return tuple(csv.DictReader(found.read_text(encoding="utf-8").splitlines())) if found else ()
