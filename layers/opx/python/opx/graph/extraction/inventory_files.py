"""Files of the inventory as entries, whatever format they are in."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from opx.graph.extraction.material import Material

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 50

SINGLE = ("name", "service", "description", "tier", "criticality", "environment", "url", "repository", "language")
"""Fields of an entry that have one value, and say nothing of other things."""


class UnreadableInventoryError(ValueError):
    """What is wrong with the file as a whole."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An entry as it is in the file: where it is, what is there as its name, and what it consists of."""

    where: str
    name: Any
    entry: Any


def listed_services(material: Material) -> list[Listed]:
    """All entries, in their order. Raises `UnreadableInventoryError`, `ObjectNotFoundError` and `StoreUnavailableError`."""
    return list(_services(_loaded(material)))


def _loaded(material: Material) -> Any:
    suffix = PurePosixPath(material.document.key.source).suffix.lower()
    if suffix not in (".yaml", ".yml", ".json", ".csv", ".tsv"):
        raise UnreadableInventoryError(f"a file {suffix or 'without an extension'} is neither YAML, JSON nor CSV")
    with material.open() as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UnreadableInventoryError(f"it has more than {MAX_BYTES // 1024 // 1024} MiB; split it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise UnreadableInventoryError(f"it is not UTF-8: {exc.reason} at byte {exc.start}") from exc
    if suffix in (".csv", ".tsv"):
        return _rows(text, "\t" if suffix == ".tsv" else ",")
    return _json(text) if suffix == ".json" else _yaml(text)


def _rows(text: str, delimiter: str) -> dict[str, Any]:
    """A service a row; several values of a field are separated by `;`."""
    try:
        rows = list(csv.DictReader(text.splitlines(), delimiter=delimiter, strict=True))
    except csv.Error as exc:
        raise UnreadableInventoryError(f"it is no CSV: {exc}") from exc
    return {"services": [_row(row) for row in rows]}


def _row(row: Mapping[Any, Any]) -> dict[str, Any]:
    cells = {str(name).strip().lower(): cell.strip() for name, cell in row.items() if name and isinstance(cell, str)}
    return {
        name: cell if name in SINGLE else [part.strip() for part in cell.split(";") if part.strip()]
        for name, cell in cells.items()
        if cell
    }


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise UnreadableInventoryError(f"it is no JSON: {str(exc)[:200]}") from exc


def _yaml(text: str) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        depth = 0
        for event in yaml.parse(text, loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent):  # a few of them can stand for billions of values
                raise UnreadableInventoryError(
                    "it has YAML aliases (*name), which are not followed; write the values out"
                )
            if depth > MAX_DEPTH:
                raise UnreadableInventoryError(f"it is nested deeper than {MAX_DEPTH} levels; an inventory needs four")
        return yaml.load(text, loader)  # noqa: S506 - it is one of the safe loaders
    except (yaml.YAMLError, ValueError) as exc:
        if isinstance(exc, UnreadableInventoryError):
            raise
        raise UnreadableInventoryError(f"it is no YAML: {' '.join(str(exc).split())[:200]}") from exc


def _services(loaded: Any) -> Iterator[Listed]:
    listed = loaded.get("services", loaded) if isinstance(loaded, Mapping) else loaded
    if listed is loaded and isinstance(listed, Mapping) and "name" in listed:
        listed = [listed]
    if isinstance(listed, Mapping):
        yield from (Listed(f"service {name!s:.60}", name, entry) for name, entry in listed.items())
        return
    if not isinstance(listed, list):
        raise UnreadableInventoryError("`services` is neither a list of entries nor a mapping of names to entries")
    for number, entry in enumerate(listed, 1):
        if isinstance(entry, Mapping):
            yield Listed(f"service {number}", entry.get("name") or entry.get("service"), entry)
        else:
            yield Listed(f"service {number}", entry, {})
