"""Writes records of streams to the corpus, and adds those with values to baselines.

No record is lost: one that can't be read as a document is put all the same, so that the pipeline reports it as a failed
item with its reason, where it can be seen, corrected and retried. A record that is delivered twice overwrites itself.
"""

from __future__ import annotations

import base64
import io
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Protocol

from opx.domain.baselines import BASELINES_CATEGORY, VALUE_FIELDS
from opx.domain.ids import shortened, stable_hash
from opx.domain.provenance import Channel, ChannelKind
from opx.domain.sources import StreamDefinition
from opx.errors import InvalidInputError, StoreUnavailableError, UnparsableDocumentError
from opx.formats.data.json_mapping import compile_paths
from opx.formats.markdown import one_line, storable
from opx.formats.markdown_lines import scan
from opx.formats.markup.plain import read_front_matter
from opx.ingestion.corpus_writer import CorpusWriter
from opx.ingestion.given_documents import Content
from opx.ingestion.object_names import object_name
from opx.ports.telemetry import Baselines
from opx.runtime.metrics import Metric, Report
from opx_streams.arrivals import ArrivalState
from opx_streams.streams.patterns import matches

log = logging.getLogger(__name__)


# -- batches of Lambda


_KINESIS, _SQS = "aws:kinesis", "aws:sqs"
_KAFKA = ("aws:kafka", "aws:SelfManagedKafka", "SelfManagedKafka")


@dataclass(frozen=True, slots=True)
class DeliveredRecord:
    """A record with its stream (an ARN, or brokers), Kafka's topic, and its identifier in a report of failures.

    Records of one `lane` are in order: none may be processed after one that failed. "" is for records without order.
    """

    record: StreamRecord
    source: str
    topic: str
    lane: str
    failure: Any


def delivered_records(event: Mapping[str, Any]) -> list[DeliveredRecord]:
    """Parses all records of a batch, in order. Raises `InvalidInputError` if it is not an event of a stream."""
    try:
        if event.get("eventSource") in _KAFKA:
            return list(_of_kafka(event))
        return [_of_record(record) for record in event["Records"]]
    except (KeyError, TypeError, AttributeError, ValueError) as exc:  # the last: data that isn't base64
        raise InvalidInputError(f"the event is not a batch of a stream: {type(exc).__name__}") from exc


def _of_record(record: Mapping[str, Any]) -> DeliveredRecord:
    """Parses a record of Kinesis or SQS. Kinesis' sequence numbers are unique within a shard only; the event's id begins with
    the shard's."""
    source = _text(record, "eventSourceARN")
    if record["eventSource"] == _KINESIS:
        number = _text(record["kinesis"], "sequenceNumber")
        body = base64.b64decode(record["kinesis"]["data"], validate=True)
        shard = _text(record, "eventID").partition(":")[0]
        return DeliveredRecord(StreamRecord(f"{shard}/{number}", body), source, "", shard, number)
    if record["eventSource"] == _SQS:
        message = _text(record, "messageId")
        body = record["body"].encode("utf-8", "surrogatepass")
        attributes = {"MessageGroupId": "", **record.get("attributes", {})}
        group = _text(attributes, "MessageGroupId") if source.endswith(".fifo") else ""
        return DeliveredRecord(StreamRecord(message, body), source, "", group, message)
    raise InvalidInputError(f"records of {str(record['eventSource'])[:50]!r} are not supported")


def _of_kafka(event: Mapping[str, Any]) -> Iterator[DeliveredRecord]:
    """Parses records of Kafka. One without a value marks its key as deleted, which doesn't concern documents: it has no
    body."""
    source = _text(event, "eventSourceArn") if event.get("eventSourceArn") else "kafka://" + event["bootstrapServers"]
    for partition, records in event["records"].items():
        for record in records:
            position = f"{record['topic']}-{record['partition']}-{record['offset']}"
            value = record.get("value")
            body = None if value is None else base64.b64decode(value, validate=True)
            failure = {"partition": partition, "offset": record["offset"]}
            yield DeliveredRecord(StreamRecord(position, body), source, _text(record, "topic"), partition, failure)


def _text(record: Mapping[str, Any], field: str) -> str:
    """Returns a string that every record has. Raises `InvalidInputError` if it is anything else."""
    found = record[field]
    if not isinstance(found, str):
        raise InvalidInputError(f"the event is not a batch of a stream: {field} is not a string")
    return found


TakerOf = Callable[[StreamDefinition], "BaselineTaker"]
"""Returns the taker that adds the values of a stream to baselines."""


def consume_batch(
    event: Mapping[str, Any],
    streams: Sequence[StreamDefinition],
    writer: CorpusWriter,
    report: Report,
    *,
    values_of: TakerOf,
    note: Callable[[str, ArrivalState], None],
) -> dict[str, list[dict[str, Any]]]:
    """Puts a batch's records. Returns Lambda's report of those to be delivered again, as the store was unavailable.

    After a failed record, those behind it in its shard, partition or message group are delivered again, too, and keep
    their order. Values of baselines have no order: all of a stream are added together.
    Raises `InvalidInputError` for an event that is not a batch, and for an undeclared stream: Lambda then halves the batch
    until the offending record is alone.
    """
    takers: dict[str, RecordTaker] = {}
    held: set[str] = set()
    again: list[dict[str, Any]] = []
    values: dict[str, list[DeliveredRecord]] = {}
    for one in delivered_records(event):
        definition = _definition_of(one, streams)
        if definition.category == BASELINES_CATEGORY:
            values.setdefault(definition.name, []).append(one)
            continue
        noted = NotedTaker(StreamTaker(definition, writer), partial(note, definition.name))
        taker = takers.setdefault(definition.name, noted)
        if one.lane in held or not _put(taker, one, report):
            report(Metric.STREAM_RETRIES)
            again.append({"itemIdentifier": one.failure})
            if one.lane:
                held.add(one.lane)
    for name, delivered in values.items():
        again += _added(values_of(_definition_of(delivered[0], streams)), delivered, report, partial(note, name))
    return {"batchItemFailures": again}


def _added(
    taker: BaselineTaker, delivered: Sequence[DeliveredRecord], report: Report, note: Callable[[ArrivalState], None]
) -> list[dict[str, Any]]:
    """Adds values, and returns those to be delivered again: all if the store was unavailable, as none is counted twice."""
    try:
        wanted = taker.take_all([one.record for one in delivered])
    except StoreUnavailableError as exc:
        log.warning("%d values are to be delivered again: %s", len(delivered), type(exc).__name__)
        report(Metric.STREAM_RETRIES, float(len(delivered)))
        note(ArrivalState.REFUSED)
        return [{"itemIdentifier": one.failure} for one in delivered]
    for one in wanted:
        report(Metric.STREAM_RECORDS if one else Metric.STREAM_RECORDS_UNWANTED)
        note(ArrivalState.ACCEPTED if one else ArrivalState.IGNORED)
    return []


def _put(taker: RecordTaker, one: DeliveredRecord, report: Report) -> bool:
    try:
        key = taker.take(one.record)
    except StoreUnavailableError as exc:
        log.warning("record %s is to be delivered again: %s", one.record.position, type(exc).__name__)
        return False
    report(Metric.STREAM_RECORDS if key else Metric.STREAM_RECORDS_UNWANTED)
    return True


def _definition_of(one: DeliveredRecord, streams: Sequence[StreamDefinition]) -> StreamDefinition:
    for definition in streams:
        if definition.is_of(one.source, one.topic):
            return definition
    raise InvalidInputError(f"no stream is declared for {one.source} {one.topic}".strip())


# -- records


MAX_IDENTITY = 200
MAX_TITLE = 100


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A record of a stream. `position` identifies it within the stream, and is the same when it is delivered again. One
    without a body is not a document."""

    position: str
    body: bytes | None


class RecordTaker(Protocol):
    """Processes the records of a stream."""

    def take(self, record: StreamRecord) -> str:
        """Processes a record, and returns a name of the result, "" for one that the filter excludes. Raises
        `StoreUnavailableError`."""


@dataclass(frozen=True, slots=True)
class NotedTaker:
    """Notes what a taker did with each record."""

    taker: RecordTaker
    note: Callable[[ArrivalState], None]

    def take(self, record: StreamRecord) -> str:
        """See `RecordTaker`."""
        try:
            found = self.taker.take(record)
        except StoreUnavailableError:
            self.note(ArrivalState.REFUSED)
            raise
        self.note(ArrivalState.ACCEPTED if found else ArrivalState.IGNORED)
        return found


class StreamTaker:
    """Puts the records of one stream as documents."""

    def __init__(self, definition: StreamDefinition, writer: CorpusWriter) -> None:
        self._definition = definition
        self._writer = writer

    def take(self, record: StreamRecord) -> str:
        """Puts a record's document. Returns its object key, "" for one that the filter excludes. Raises
        `StoreUnavailableError`."""
        if record.body is None:
            return ""
        found = _read(record.body)
        if self._definition.pattern and not matches(self._definition.pattern, found.value):
            return ""
        try:
            return self._put(self._identity(found.value) or record.position, found.content, found.suffix)
        except InvalidInputError:  # half of a surrogate pair, or an invalid name of an object
            return self.put_unread(record, record.body)

    def put_unread(self, record: StreamRecord, content: bytes) -> str:
        """Puts a record that can't be ingested with the extension .json, so that the pipeline reports it as a failed item.
        Returns the object key."""
        return self._put(stable_hash("record", record.position), content, ".json")

    def _put(self, name: str, content: Content, suffix: str) -> str:
        metadata: dict[str, Any] = {"source": f"streams/{self._definition.name}/{object_name(name)}{suffix}"}
        title = _title(content) if isinstance(content, str) else ""
        if title:
            metadata["title"] = title
        if self._definition.tags:
            metadata["tags"] = list(self._definition.tags)
        channel = Channel(ChannelKind.STREAM, self._definition.name, proof="read by the installation")
        return self._writer.by(channel).put_document(self._definition.category, content, metadata)

    def _identity(self, value: Any) -> str:
        if not self._definition.identity or not isinstance(value, dict):
            return ""
        for path in compile_paths(self._definition.identity):
            for one in path.values(value):
                text = one if isinstance(one, str) else json.dumps(one, sort_keys=True)
                text = text.encode(errors="replace").decode()  # half of a surrogate pair can't be part of a name
                return text if len(text) <= MAX_IDENTITY else stable_hash("identity", text)
        return ""


@dataclass(frozen=True, slots=True)
class _Read:
    """A body as a document, and as the value for filters and identities."""

    content: Content
    value: Any
    suffix: str = ""


def _read(body: bytes) -> _Read:
    """Parses a body: an object is a record of the category, other text is Markdown. Anything else is put as JSON, so that
    the pipeline reports it as malformed."""
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
    """Title of Markdown, as a position in a stream is not readable: its first main heading, or else its first line with
    words. "" if its front matter has a title, or can't be read, which the pipeline reports."""
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
            return _one_line(line.heading)
        if not first and any(map(str.isalnum, line.text)):
            first = line.heading or line.text
    return _one_line(first)


# -- values of baselines


class BaselineTaker:
    """Adds the records of one stream: values, or baselines that were computed elsewhere."""

    def __init__(self, definition: StreamDefinition, baselines: Callable[[], Baselines], writer: CorpusWriter) -> None:
        self._definition = definition
        self._baselines = baselines
        self._aside = StreamTaker(definition, writer)

    def take(self, record: StreamRecord) -> str:
        """Adds a record; returns its position, "" if the filter excludes it. Raises `StoreUnavailableError`."""
        return record.position if self.take_all([record])[0] else ""

    def take_all(self, records: Sequence[StreamRecord]) -> list[bool]:
        """Adds records together, so that a day of a series is written once. Returns for each True if the filter includes it.
        Raises `StoreUnavailableError`: all of them may be delivered again, as none is added twice; and
        `MissingDistributionError`."""
        store = self._baselines()
        pattern = self._definition.pattern
        wanted: list[bool] = []
        readings: list[tuple[StreamRecord, Mapping[str, Any]]] = []
        for record in records:
            value = _value_of(record.body)
            wanted.append(record.body is not None and (not pattern or matches(pattern, value)))
            if not wanted[-1]:
                continue
            try:
                if _is_record(value):
                    store.put_record(value)
                else:
                    readings.append((record, self._reading(value)))
            except InvalidInputError as exc:
                self._set_aside(record, str(exc))
        marks = [f"{self._definition.name} {record.position}" for record, _ in readings]
        done = store.add([reading for _, reading in readings], marks=marks)
        for one in done.refused:
            self._set_aside(readings[one.index][0], one.reason)
        return wanted

    def _reading(self, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise InvalidInputError("a record of a stream of baselines is a JSON object with node, metric and value")
        return _fields(value, self._definition.json)

    def _set_aside(self, record: StreamRecord, reason: str) -> None:
        log.warning("stream %s: a record can't be added to baselines; see `opx failed`", self._definition.name)
        text = (record.body or b"").decode("utf-8", "replace")
        self._aside.put_unread(record, json.dumps({"refused": reason, "record": text}).encode())


def _is_record(given: object) -> bool:
    """True if this is meant to be a computed baseline rather than a value."""
    return isinstance(given, Mapping) and "value" not in given and bool({"mean", "samples", "time_window"} & set(given))


def _fields(value: Mapping[str, Any], paths: Mapping[str, str]) -> dict[str, Any]:
    """Returns the fields of a reading: by the JSONPaths of the definition, else the fields of the same name."""
    found = {name: value[name] for name in VALUE_FIELDS if name in value and name not in paths}
    if paths:
        from opx.formats.data.json_mapping import compile_paths

        for name, path in paths.items():
            values = [one for compiled in compile_paths(path) for one in compiled.values(value)]
            if values:
                found[name] = values[0]
    return found


def _value_of(body: bytes | None) -> Any:
    """Parses the JSON of a record; None if it is not JSON."""
    try:
        return json.loads(body) if body is not None else None
    except (ValueError, RecursionError):
        return None


def _one_line(text: str) -> str:
    return shortened(one_line(storable(text)), MAX_TITLE)
