"""Records of streams into the corpus.

Nothing of a stream is lost: what can't be read as a document is put all the same, so that the pipeline notes it as a
failed item with its reason, where it can be seen, corrected and tried again. A record that is delivered twice overwrites
itself.
"""

from __future__ import annotations

import base64
import io
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from opx.connectors.forums.threads import one_line
from opx.connectors.storing import object_name
from opx.connectors.streams.patterns import matches
from opx.domain.baselines import BASELINES_CATEGORY
from opx.domain.ids import stable_hash
from opx.domain.record import replace
from opx.domain.sources import StreamDefinition
from opx.errors import InvalidInputError, StoreUnavailableError, UnparsableDocumentError
from opx.formats.data.json_mapping import compile_paths
from opx.formats.markdown_lines import scan
from opx.formats.markup.plain import read_front_matter
from opx.ingestion.corpus_writer import Content, CorpusWriter
from opx.ports import Clock
from opx.runtime.metrics import Metric, Report
from opx.telemetry.baselines.readings import FIELDS, Reading, is_record, reading_of

if TYPE_CHECKING:
    from opx.telemetry.baselines.store import BaselineStore


# -- consuming


_KINESIS, _SQS = "aws:kinesis", "aws:sqs"
_KAFKA = ("aws:kafka", "aws:SelfManagedKafka", "SelfManagedKafka")


@dataclass(frozen=True, slots=True)
class DeliveredRecord:
    """A record, the stream it is of (an ARN, or brokers), Kafka's topic, and what a report of its failure names.

    Records of one `lane` are in order: none may be done after one that failed. "" is for those that are in none.
    """

    record: StreamRecord
    source: str
    topic: str
    lane: str
    failure: Any


def delivered_records(event: Mapping[str, Any]) -> list[DeliveredRecord]:
    """All records of a batch, in order. Raises `InvalidInputError` for what no stream sends."""
    try:
        if event.get("eventSource") in _KAFKA:
            return list(_of_kafka(event))
        return [_of_record(record) for record in event["Records"]]
    except (KeyError, TypeError, AttributeError, ValueError) as exc:  # the last: data that isn't base64
        raise InvalidInputError(f"the event is no batch of a stream: {type(exc).__name__}") from exc


def _of_record(record: Mapping[str, Any]) -> DeliveredRecord:
    """A number of Kinesis is unique in its shard alone, hence the event's id, which begins with the shard's."""
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
    raise InvalidInputError(f"records of {str(record['eventSource'])[:50]!r} are not taken")


def _of_kafka(event: Mapping[str, Any]) -> Iterator[DeliveredRecord]:
    """A record without a value says that its key is gone, which says nothing about documents: it has no body."""
    source = _text(event, "eventSourceArn") if event.get("eventSourceArn") else "kafka://" + event["bootstrapServers"]
    for partition, records in event["records"].items():
        for record in records:
            position = f"{record['topic']}-{record['partition']}-{record['offset']}"
            value = record.get("value")
            body = None if value is None else base64.b64decode(value, validate=True)
            failure = {"partition": partition, "offset": record["offset"]}
            yield DeliveredRecord(StreamRecord(position, body), source, _text(record, "topic"), partition, failure)


def _text(record: Mapping[str, Any], field: str) -> str:
    """A text that every record has. Raises `InvalidInputError` if it is anything else."""
    found = record[field]
    if not isinstance(found, str):
        raise InvalidInputError(f"the event is no batch of a stream: {field} is no text")
    return found


TakerOf = Callable[[StreamDefinition], "BaselineTaker"]
"""What adds the values of a stream to baselines."""


def consume_batch(
    event: Mapping[str, Any],
    streams: Sequence[StreamDefinition],
    writer: CorpusWriter,
    report: Report,
    *,
    values_of: TakerOf,
) -> dict[str, list[dict[str, Any]]]:
    """Put a batch's records. Returns Lambda's report of those that are to be delivered again, as the store was away.

    After one that fails, those behind it in its shard, partition or message group come again, too, and keep their order.
    Values of baselines have none: all of a stream are added together.
    Raises `InvalidInputError` for what is no batch, and for a stream that nobody declared: Lambda then halves the batch
    until the record that is to blame is alone.
    """
    takers: dict[str, StreamTaker] = {}
    held: set[str] = set()
    again: list[dict[str, Any]] = []
    values: dict[str, list[DeliveredRecord]] = {}
    for one in delivered_records(event):
        definition = _definition_of(one, streams)
        if definition.category == BASELINES_CATEGORY:
            values.setdefault(definition.name, []).append(one)
            continue
        taker = takers.setdefault(definition.name, StreamTaker(definition, writer))
        if one.lane in held or not _taken(taker, one, report):
            report(Metric.STREAM_RETRIES)
            again.append({"itemIdentifier": one.failure})
            if one.lane:
                held.add(one.lane)
    for delivered in values.values():
        again += _added(values_of(_definition_of(delivered[0], streams)), delivered, report)
    return {"batchItemFailures": again}


def _added(taker: BaselineTaker, delivered: Sequence[DeliveredRecord], report: Report) -> list[dict[str, Any]]:
    """Those that are to come again: all if the store was away, as none is counted twice."""
    try:
        wanted = taker.take_all([one.record for one in delivered])
    except StoreUnavailableError as exc:
        log.warning("%d values are to come again: %s", len(delivered), type(exc).__name__)
        report(Metric.STREAM_RETRIES, float(len(delivered)))
        return [{"itemIdentifier": one.failure} for one in delivered]
    for one in wanted:
        report(Metric.STREAM_RECORDS if one else Metric.STREAM_RECORDS_UNWANTED)
    return []


def _taken(taker: StreamTaker, one: DeliveredRecord, report: Report) -> bool:
    try:
        key = taker.take(one.record)
    except StoreUnavailableError as exc:
        log.warning("record %s is to come again: %s", one.record.position, type(exc).__name__)
        return False
    report(Metric.STREAM_RECORDS if key else Metric.STREAM_RECORDS_UNWANTED)
    return True


def _definition_of(one: DeliveredRecord, streams: Sequence[StreamDefinition]) -> StreamDefinition:
    for definition in streams:
        if definition.is_of(one.source, one.topic):
            return definition
    raise InvalidInputError(f"no stream is declared for {one.source} {one.topic}".strip())


# -- taking


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
