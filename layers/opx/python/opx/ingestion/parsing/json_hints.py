"""JSON files that hold something else than one record that counts: what they hold instead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from opx.errors import UnparsableDocumentError
from opx.ingestion.parsing.json_paths import SEPARATOR, FieldPath, compile_paths

SPLIT = "put each into a file of its own, or one a line into a .jsonl file"
_LEVELS = 2
"""Members of members are looked into: Brave's results are in `web.results`."""

_MEMBERS = 100
_ITEMS = 10
_SHOWN = 3
_FIRST = "[0]"


def shown(paths: Sequence[FieldPath]) -> str:
    """Paths for a message: those that only lead somewhere, if there are any, and not those that make a text."""
    plain = [path.text for path in paths if not any(sign in path.text for sign in ("`", " + "))]
    return SEPARATOR.join(plain or [path.text for path in paths])


def refuse_several(titles: Sequence[FieldPath], record: dict[str, Any], name: str) -> None:
    """Raises `UnparsableDocumentError` for a list of which only the first object would be read, as its path says: a
    STIX bundle may hold one object or 25,000."""
    for path in titles:
        listed, first, _ = path.text.partition(_FIRST)
        count = len(compile_paths(f"{listed}[*]")[0].values(record)) if first else 0
        if count > 1:
            raise UnparsableDocumentError(
                f"{name}: {count:,} objects in one file, at {listed}; {SPLIT}"
                + (
                    "; ATT&CK can be pulled: opx source add attack --kind attack --category security/mitre"
                    if _is_bundle(record)
                    else ""
                )
            )
        if path.values(record):
            return


def refuse_withdrawn(record: dict[str, Any], name: str) -> None:
    """Raises `UnparsableDocumentError` for an object of STIX that its authors revoked or deprecated."""
    objects = record.get("objects") if _is_bundle(record) else [record]
    for found in objects if isinstance(objects, list) else ():
        if not (isinstance(found, dict) and str(found.get("id")).startswith(f"{found.get('type')}--")):
            continue
        if found.get("revoked") is True or found.get("x_mitre_deprecated") is True:
            state = "revoked" if found.get("revoked") is True else "deprecated"
            raise UnparsableDocumentError(f"{name}: its authors have {state} {found['id']}; leave it out")


def _is_bundle(record: dict[str, Any]) -> bool:
    return record.get("type") == "bundle"


def advice(titles: Sequence[FieldPath], record: dict[str, Any]) -> str:
    """What to do about a record without a title: often the records are in one of its members, as in the reply of an
    interface."""
    level: list[tuple[str, Any]] = list(islice(record.items(), _MEMBERS))
    for _ in range(_LEVELS):
        lists = [name for name, value in level if isinstance(value, list) and _titled(titles, value[:_ITEMS])]
        if lists:
            return f"the records seem to be in {' and '.join(f'`{name}`' for name in lists[:_SHOWN])}: {SPLIT}"
        single = next((name for name, value in level if _titled(titles, [value])), None)
        if single is not None:
            return f"the record seems to be in `{single}`: put that into a file of its own"
        below = ((name, value) for name, value in level if isinstance(value, dict))
        level = [(f"{name}.{each}", inner) for name, value in below for each, inner in islice(value.items(), _MEMBERS)]
    return "add it to the record, or choose a category whose `json` paths fit"


def _titled(titles: Sequence[FieldPath], values: Iterable[Any]) -> bool:
    return any(isinstance(value, dict) and any(path.values(value) for path in titles) for value in values)
