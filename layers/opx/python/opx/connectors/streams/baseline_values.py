"""Records of streams into baselines.

A record that can't be added is put into the corpus with the reason, where the pipeline notes it as a failed item: nothing
of a stream is lost without a word. One that is delivered twice is counted once: its position is its mark.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opx.connectors.streams.patterns import matches
from opx.connectors.streams.taking import StreamRecord, StreamTaker
from opx.domain.record import replace
from opx.domain.streams import StreamDefinition
from opx.errors import InvalidInputError
from opx.ports import Clock
from opx.telemetry.baselines.readings import FIELDS, Reading, is_record, reading_of

if TYPE_CHECKING:
    from opx.ingestion.corpus_writer import CorpusWriter
    from opx.telemetry.baselines.store import BaselineStore

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
        from opx.formats.data.json_paths import compile_paths

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
