"""Records of streams into the corpus.

Nothing of a stream is lost: what can't be read as a document is put all the same, so that the pipeline notes it as a
failed item with its reason, where it can be seen, corrected and tried again. A record that is delivered twice overwrites
itself.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from opx.connectors.forums.threads import one_line
from opx.connectors.storing import object_name
from opx.connectors.streams.patterns import matches
from opx.domain.ids import stable_hash
from opx.domain.record import replace
from opx.domain.sources import StreamDefinition
from opx.errors import InvalidInputError, UnparsableDocumentError
from opx.formats.data.json_mapping import compile_paths
from opx.formats.markdown_lines import scan
from opx.formats.markup.plain import read_front_matter
from opx.ingestion.corpus_writer import Content, CorpusWriter
from opx.ports import Clock
from opx.telemetry.baselines.readings import FIELDS, Reading, is_record, reading_of

if TYPE_CHECKING:
    from opx.telemetry.baselines.store import BaselineStore


MAX_IDENTITY = 200
MAX_TITLE = 100


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """`position` tells the record from all others of its stream, and is the same when it comes again. One without a body
    is no document."""

    position: str
    body: bytes | None


class RecordTaker(Protocol):
    """Does with a record what its stream is for."""

    def take(self, record: StreamRecord) -> str:
        """Something that names what became of the record, "" for one that isn't wanted. Raises
        `StoreUnavailableError`."""


class StreamTaker:
    """Puts the records of one stream."""

    def __init__(self, definition: StreamDefinition, writer: CorpusWriter) -> None:
        self._definition = definition
        self._writer = writer

    def take(self, record: StreamRecord) -> str:
        """Put a record's document. Returns its object key, "" for one that isn't wanted. Raises
        `StoreUnavailableError`."""
        if record.body is None:
            return ""
        found = _read(record.body)
        if self._definition.pattern and not matches(self._definition.pattern, found.value):
            return ""
        try:
            return self._put(self._identity(found.value) or record.position, found.content, found.suffix)
        except InvalidInputError:  # half of a character in a text, or a name that no object can have
            return self.put_unread(record, record.body)

    def put_unread(self, record: StreamRecord, content: bytes) -> str:
        """Put what can't be taken in as JSON, which the pipeline says it is not, or not of its category. Returns the
        object key."""
        return self._put(stable_hash("record", record.position), content, ".json")

    def _put(self, name: str, content: Content, suffix: str) -> str:
        metadata: dict[str, Any] = {"source": f"streams/{self._definition.name}/{object_name(name)}{suffix}"}
        title = _title(content) if isinstance(content, str) else ""
        if title:
            metadata["title"] = title
        if self._definition.tags:
            metadata["tags"] = list(self._definition.tags)
        return self._writer.put_document(self._definition.category, content, metadata)

    def _identity(self, value: Any) -> str:
        if not self._definition.identity or not isinstance(value, dict):
            return ""
        for path in compile_paths(self._definition.identity):
            for one in path.values(value):
                text = one if isinstance(one, str) else json.dumps(one, sort_keys=True)
                text = text.encode(errors="replace").decode()  # half of a character can't be part of a name
                return text if len(text) <= MAX_IDENTITY else stable_hash("identity", text)
        return ""


@dataclass(frozen=True, slots=True)
class _Read:
    """A body as a document, and as what filters and identities look at."""

    content: Content
    value: Any
    suffix: str = ""


def _read(body: bytes) -> _Read:
    """An object is a record of the category, other text is Markdown. What is neither is put as JSON, which it is not: the
    pipeline says so."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return _Read(body, None, ".json")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        looks_like_json = text.lstrip().startswith(("{", "["))
        return _Read(body, None, ".json") if looks_like_json else _Read(text, None)
    if isinstance(value, dict):
        return _Read(value, value)
    return _Read(body, value, ".json") if isinstance(value, list) else _Read(text, value)


def _title(text: str) -> str:
    """What a text calls itself, since a position in a stream says nothing: its first main heading, or else its first line
    with words. "" if its front matter has a title or can't be read, which is the pipeline's to say."""
    lines: Iterator[str] = io.StringIO(text.removeprefix("\ufeff"), newline=None)
    try:
        known, read = read_front_matter(lines, "record")
    except UnparsableDocumentError:
        return ""
    if known and known.get("title"):
        return ""
    first = ""
    for line in scan(chain(read, lines)):
        if line.level == 1 and line.heading:
            return one_line(line.heading, MAX_TITLE)
        if not first and any(map(str.isalnum, line.text)):
            first = line.heading or line.text
    return one_line(first, MAX_TITLE)


# -- baseline values


log = logging.getLogger(__name__)


class BaselineTaker:
    """Adds the records of one stream: values, or baselines that were computed elsewhere."""

    def __init__(self, definition: StreamDefinition, store: BaselineStore, writer: CorpusWriter, clock: Clock) -> None:
        self._definition = definition
        self._store = store
        self._aside = StreamTaker(definition, writer)
        self._clock = clock

    def take(self, record: StreamRecord) -> str:
        """Add a record; "" for one that isn't wanted, else its position. Raises `StoreUnavailableError`."""
        return record.position if self.take_all([record])[0] else ""

    def take_all(self, records: Sequence[StreamRecord]) -> list[bool]:
        """Add records together, so that a day of a series is written once; for each whether it was wanted. Raises
        `StoreUnavailableError`: all of them may come again, and what was added isn't added twice."""
        pattern = self._definition.pattern
        wanted: list[bool] = []
        readings: list[tuple[StreamRecord, Reading]] = []
        for record in records:
            value = _value_of(record.body)
            wanted.append(record.body is not None and (not pattern or matches(pattern, value)))
            if not wanted[-1]:
                continue
            try:
                if is_record(value):
                    self._store.put_record(value)
                else:
                    readings.append((record, self._reading(record, value)))
            except InvalidInputError as exc:
                self._set_aside(record, str(exc))
        done = self._store.add([reading for _, reading in readings])
        for one in done.refused:
            self._set_aside(readings[one.index][0], one.reason)
        return wanted

    def _reading(self, record: StreamRecord, value: Any) -> Reading:
        if not isinstance(value, dict):
            raise InvalidInputError("a record of a stream of baselines is a JSON object with node, metric and value")
        found = reading_of(_fields(value, self._definition.json), self._clock())
        return replace(found, mark=f"{self._definition.name} {record.position}")

    def _set_aside(self, record: StreamRecord, reason: str) -> None:
        log.warning("stream %s: a record can't be added to baselines; see `opx failed`", self._definition.name)
        text = (record.body or b"").decode("utf-8", "replace")
        self._aside.put_unread(record, json.dumps({"refused": reason, "record": text}).encode())


def _fields(value: Mapping[str, Any], paths: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a reading: from where the definition says that they are, else from those of the same name."""
    found = {name: value[name] for name in FIELDS if name in value and name not in paths}
    if paths:
        from opx.formats.data.json_mapping import compile_paths

        for name, path in paths.items():
            values = [one for compiled in compile_paths(path) for one in compiled.values(value)]
            if values:
                found[name] = values[0]
    return found


def _value_of(body: bytes | None) -> Any:
    """The JSON of a record; None for what is none."""
    try:
        return json.loads(body) if body is not None else None
    except (ValueError, RecursionError):
        return None
