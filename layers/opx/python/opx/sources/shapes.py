"""Fields of replies, checked: what is missing or of another kind is named, and nothing is read by half."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from opx.domain.sources import Refused, SourceDocument
from opx.domain.times import iso_time
from opx.errors import InvalidInputError, SourceShapeError


class OddRecordError(Exception):
    """One record is not as it should be; the others may be."""


def member(record: Any, path: str) -> Any:
    """What is at a path of names joined by dots, None if a part of it isn't there or is null."""
    for name in path.split("."):
        record = record.get(name) if isinstance(record, Mapping) else None
    return record


def text(record: Any, path: str) -> str:
    """The text at a path, which has to be there. Raises `OddRecordError`."""
    found = member(record, path)
    if not isinstance(found, str) or not found.strip():
        raise OddRecordError(f"expected a text at {path!r}")
    return found


def maybe_text(record: Any, path: str) -> str:
    """The text at a path, "" if there is none."""
    found = member(record, path)
    return found if isinstance(found, str) else ""


def given_text(record: Any, path: str) -> str:
    """The text at a path, "" if nothing is there. Raises `OddRecordError` if it is something else."""
    found = member(record, path)
    if found is not None and not isinstance(found, str):
        raise OddRecordError(f"expected a text at {path!r}")
    return found or ""


def items(record: Any, path: str) -> list[Any]:
    """The list at a path, empty if there is none. Raises `OddRecordError` if it is something else."""
    found = member(record, path)
    if found is None:
        return []
    if not isinstance(found, list):
        raise OddRecordError(f"expected a list at {path!r}")
    return found


def names(record: Any, path: str, name: str = "name") -> list[str]:
    """The names of a list of objects or texts."""
    found = [each if isinstance(each, str) else maybe_text(each, name) for each in items(record, path)]
    return [each for each in found if each]


def moment(record: Any, path: str) -> str:
    """The time at a path, as ISO 8601 in UTC. Raises `OddRecordError`."""
    return utc(text(record, path), path)


def utc(told: str, of: str = "time") -> str:
    """A time as ISO 8601 in UTC; one without a zone is UTC. Raises `OddRecordError`."""
    try:
        found = datetime.fromisoformat(told)
        return iso_time((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError) as exc:
        raise OddRecordError(f"expected a time at {of!r}, not {told[:40]!r}") from exc


def since_of(told: str) -> str:
    """From when changes are asked for, as ISO 8601 in UTC, "" for everything. Raises `InvalidInputError`."""
    try:
        return utc(told) if told else ""
    except OddRecordError as exc:
        raise InvalidInputError(f"since must be a time as in 2024-01-31T12:00:00Z, not {told[:40]!r}") from exc


def listed(reply: Any, path: str, of: str) -> list[Any]:
    """The list that a reply is about. Raises `SourceShapeError` that names what was expected."""
    found = member(reply, path)
    if not isinstance(found, list):
        raise SourceShapeError(f"{of}: expected a list {path!r} in the reply")
    return found


def read_each(
    records: Iterable[Any], read: Callable[[Any], SourceDocument], key: Callable[[Any], str], of: str
) -> tuple[tuple[SourceDocument, ...], tuple[Refused, ...]]:
    """Records as documents; odd ones are refused. Raises `SourceShapeError` if there are several and all are odd: then
    it is not the records, but their shape has changed."""
    documents: list[SourceDocument] = []
    refused: list[Refused] = []
    for record in records:
        try:
            documents.append(read(record))
        except OddRecordError as exc:
            refused.append(Refused(key(record), str(exc)))
    if len(refused) > 1 and not documents:
        raise SourceShapeError(f"{of}: no record is as expected; the first: {refused[0].reason}")
    return tuple(documents), tuple(refused)
