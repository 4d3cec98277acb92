"""Batches of records into the corpus: which become documents, which come again, and that none keeps another back."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.domain.provenance import ChannelKind
from opx.errors import InvalidInputError
from opx.ingestion.channels import arrival_of
from opx.runtime.metrics import Metric
from opx_streams.capability import StreamIngestion
from opx_streams.streams.taking import consume_batch, delivered_records
from tests.support.cli_support import Opx
from tests.support.fakes import Measured
from tests.support.stream_support import (
    BROKERS,
    FIFO,
    KINESIS,
    MSK,
    SQS,
    SystemUnderTest,
    a_stream,
    an_incident,
    from_kafka,
    from_kinesis,
    from_sqs,
)


@pytest.fixture
def system(tmp_path: Path) -> Iterator[SystemUnderTest]:
    made = SystemUnderTest(tmp_path)
    with made.services:
        yield made


FOLDER = "documents/operations/incidents/streams/incidents"


class TestDocuments:
    def test_an_object_is_a_record_of_its_category(self, system: SystemUnderTest) -> None:
        assert system.consume(from_kinesis([an_incident(1), an_incident(2)])) == []
        assert system.titles == ["Outage 1", "Outage 2"]
        assert system.keys[0] == f"{FOLDER}/shardId-000000000000/0.json"

    def test_the_object_states_its_stream(self, system: SystemUnderTest) -> None:
        system.consume(from_kinesis([an_incident(1)]))
        info = system.services.store.head(system.keys[0])
        assert info
        channel = arrival_of(system.services.store, info).channel
        assert (channel.kind, channel.name) == (ChannelKind.STREAM, "incidents")

    def test_other_text_is_markdown(self, system: SystemUnderTest) -> None:
        system.consume(from_kinesis([b"# Disk full\n\nDelete rotated logs."]))
        assert system.titles == ["Disk full"]

    @pytest.mark.parametrize(
        ("text", "title"),
        [
            ("Disk full on db-1\n\nDelete rotated logs.", "Disk full on db-1"),
            ("\n---\n  Disk full\r\nmore\n\n# Cause\n\nLogs.", "Cause (incidents)"),
            ("## Disk full\n\n### Cause\n\nLogs.", "Disk full"),
            ("\ufeff# Disk full\n\nLogs.", "Disk full"),
            ("---\ntitle: Own title\n---\nDisk full.", "Own title"),
            ("---\nseverity: high\n---\nDisk full.", "Disk full."),
            ("disk " * 50, "disk " * 19 + "disk…"),
            ("# " + "disk " * 50, "disk " * 19 + "disk…"),
            ('"a text of JSON"', '"a text of JSON"'),
        ],
    )
    def test_a_text_is_called_by_its_first_heading_or_line(
        self, system: SystemUnderTest, text: str, title: str
    ) -> None:
        system.consume(from_kinesis([text.encode()]))
        assert system.titles == [title]

    def test_the_same_record_again_is_no_second_document(self, system: SystemUnderTest) -> None:
        for _ in range(2):
            system.consume(from_sqs([an_incident()]), a_stream(source=SQS))
        assert (system.titles, len(system.keys)) == (["Outage 1"], 1)

    def test_equal_numbers_of_two_shards_are_two_documents(self, system: SystemUnderTest) -> None:
        system.consume(from_kinesis([an_incident(1)], shard=0))
        system.consume(from_kinesis([an_incident(2)], shard=1))
        assert system.titles == ["Outage 1", "Outage 2"]

    def test_records_about_the_same_are_versions_of_one_document(self, system: SystemUnderTest) -> None:
        stream = a_stream(identity="$.id")
        system.consume(from_kinesis([an_incident(1), an_incident(2)]), stream)
        assert system.titles == ["Outage 1", "Outage 2"]
        system.consume(from_kinesis([an_incident(1, title="Outage 1, resolved")]), stream)
        assert system.titles == ["Outage 1, resolved", "Outage 2"]

    def test_one_without_an_identity_is_a_document_by_itself(self, system: SystemUnderTest) -> None:
        system.consume(
            from_kinesis([{"title": "A", "content": "a"}, {"title": "B", "content": "b"}]), a_stream(identity="$.id")
        )
        assert system.titles == ["A", "B"]

    def test_documents_have_the_streams_tags(self, system: SystemUnderTest) -> None:
        system.consume(from_kinesis([an_incident()]), a_stream(tags=["pager"]))
        list(system.services.manager.work())
        (document,) = system.services.corpus.catalog.in_category("operations/incidents")
        assert document.tags == ("pager",)

    def test_record_refused_by_the_filter_is_counted_and_not_put(self, system: SystemUnderTest) -> None:
        stream = a_stream(filter={"severity": ["critical"]})
        records = [an_incident(1, severity="critical"), an_incident(2, severity="minor"), b"text"]
        assert system.consume(from_kinesis(records), stream) == []
        assert system.titles == ["Outage 1"]
        assert system.report.counts == {Metric.STREAM_RECORDS: 1, Metric.STREAM_RECORDS_UNWANTED: 2}


class TestFailedItems:
    @pytest.mark.parametrize(
        "body",
        [
            b'{"title": "cut',
            b"[1, 2]",
            b"{}",
            b"",
            b"\xff\xfe\x00\x01",
            b"[" * 9999,
            b"---\ntitle: [\n---\ntext",
            b"---\n---\n",
        ],
    )
    def test_unreadable_record_is_listed_as_failed_and_the_others_are_put(
        self, system: SystemUnderTest, body: bytes
    ) -> None:
        assert system.consume(from_kinesis([an_incident(1), body, an_incident(2)])) == []
        assert system.titles == ["Outage 1", "Outage 2"]
        (failed,) = system.services.corpus.failures.items()
        assert failed.object_key.startswith("documents/operations/incidents/streams/incidents/")

    def test_half_of_a_character_is_no_reason_to_refuse_the_rest(self, system: SystemUnderTest) -> None:
        assert system.consume(from_kinesis([b'{"title": "Disk \\ud800", "content": "x"}'])) == []
        assert system.titles == ["Disk \ufffd"]

    def test_a_correct_record_at_the_same_place_replaces_it(self, system: SystemUnderTest) -> None:
        system.consume(from_kinesis([b'{"title": "cut']))
        assert (system.titles, len(list(system.services.corpus.failures.items()))) == ([], 1)
        system.consume(from_kinesis([an_incident()]))
        assert (system.titles, list(system.services.corpus.failures.items())) == (["Outage 1"], [])

    def test_the_command_lists_it_with_its_reason_and_tries_it_again(self, tmp_path: Path) -> None:
        opx = Opx(tmp_path)
        with SystemUnderTest(opx.home).services as services:
            batch, ways = from_kinesis([b'{"title": "cut']), services.part(StreamIngestion)
            taken = {"values_of": ways.taker_of_values, "note": ways.note_record}
            consume_batch(batch, (a_stream(),), services.manager, Measured(), **taken)  # type: ignore[arg-type]
            list(services.manager.work())
        (failed,) = json.loads(opx("failed", "--json").output)
        assert failed["objectKey"] == f"{FOLDER}/shardId-000000000000/0.json"
        assert "JSON" in failed["reason"]
        assert opx("failed", "retry", failed["failureId"]).exit_code != 0

    @pytest.mark.parametrize("identity", ["../../x", "a/b", "x" * 1000, "x.metadata", "\ud800", "", "ä ö/ü?", "."])
    def test_an_identity_is_no_way_out_of_the_streams_folder(self, system: SystemUnderTest, identity: str) -> None:
        assert system.consume(from_kinesis([an_incident(1, id=identity)]), a_stream(identity="$.id")) == []
        (key,) = system.keys
        assert key.startswith(f"{FOLDER}/")
        assert ".." not in key
        assert system.titles == ["Outage 1"]


class TestShapes:
    """As the developer guide shows them."""

    def test_a_batch_of_msk_and_one_of_other_brokers(self, system: SystemUnderTest) -> None:
        system.consume(from_kafka({0: [an_incident(1)], 1: [an_incident(2)]}), a_stream(source=MSK))
        assert system.titles == ["Outage 1", "Outage 2"]

    @pytest.mark.parametrize("origin", ["SelfManagedKafka", "aws:SelfManagedKafka"])
    def test_brokers_may_come_in_any_order(self, system: SystemUnderTest, origin: str) -> None:
        servers = "b-2.example.org:9092,b-1.example.org:9092"
        event = from_kafka({0: [an_incident(1)]}, eventSource=origin, bootstrapServers=servers)
        assert system.consume(event, a_stream(source=BROKERS)) == []
        assert system.titles == ["Outage 1"]

    def test_a_value_that_is_gone_is_no_document(self, system: SystemUnderTest) -> None:
        assert system.consume(from_kafka({0: [None, an_incident(1)]}), a_stream(source=MSK)) == []
        assert system.titles == ["Outage 1"]
        assert system.report.counts[Metric.STREAM_RECORDS_UNWANTED] == 1

    @pytest.mark.parametrize(
        "event",
        [
            {},
            {"Records": [{}]},
            {"Records": [{"eventSource": "aws:dynamodb", "eventSourceARN": KINESIS}]},
            {"Records": "no"},
            {"eventSource": "aws:kafka", "records": {}},
            {"eventSource": "aws:kafka", "eventSourceArn": MSK, "records": [1]},
        ],
    )
    def test_event_that_no_stream_sends_is_refused(self, system: SystemUnderTest, event: Any) -> None:
        if event == {"eventSource": "aws:kafka", "records": {}}:
            event = {"eventSource": "SelfManagedKafka", "records": {"t-0": [{}]}}
        with pytest.raises(InvalidInputError):
            system.consume(event)

    def test_data_that_is_not_base64_is_refused(self, system: SystemUnderTest) -> None:
        event = from_kinesis([an_incident()])
        event["Records"][0]["kinesis"]["data"] = "***"
        with pytest.raises(InvalidInputError, match="not a batch"):
            system.consume(event)

    def test_letters_that_base64_does_not_have_are_refused(self) -> None:
        event = from_kinesis([an_incident()])
        event["Records"][0]["kinesis"]["data"] = "ü"
        with pytest.raises(InvalidInputError, match="not a batch"):
            delivered_records(event)

    @pytest.mark.parametrize("value", [{"a": 1}, [], 5, None])
    @pytest.mark.parametrize(
        ("event", "path"),
        [
            (from_sqs([an_incident()]), ("messageId",)),
            (from_sqs([an_incident()]), ("eventSourceARN",)),
            (from_sqs([an_incident()], source=FIFO), ("attributes", "MessageGroupId")),
            (from_kinesis([an_incident()]), ("eventSourceARN",)),
            (from_kinesis([an_incident()]), ("eventID",)),
            (from_kinesis([an_incident()]), ("kinesis", "sequenceNumber")),
        ],
    )
    def test_a_field_that_is_no_text_is_refused_by_its_name(
        self, event: dict[str, Any], path: tuple[str, ...], value: Any
    ) -> None:
        odd = copy.deepcopy(event)
        place = odd["Records"][0]
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = value
        with pytest.raises(InvalidInputError, match=f"not a batch of a stream: {path[-1]} is not a string"):
            delivered_records(odd)

    @pytest.mark.parametrize("field", ["eventSourceArn", "bootstrapServers"])
    def test_a_cluster_that_is_no_text_is_refused(self, field: str) -> None:
        event = from_kafka({0: [an_incident()]}, eventSource="SelfManagedKafka", **{field: {"a": 1}})
        with pytest.raises(InvalidInputError, match="not a batch"):
            delivered_records(event)

    def test_a_stream_that_nobody_declared_is_refused(self, system: SystemUnderTest) -> None:
        with pytest.raises(InvalidInputError, match=r"no stream is declared for .*:other"):
            system.consume(from_sqs([an_incident()], source=f"{SQS}:other"), a_stream(source=SQS))
        with pytest.raises(InvalidInputError, match="no stream is declared"):
            system.consume(from_kafka({0: [an_incident()]}), a_stream(source=MSK, topic="other"))


class TestStoreAway:
    """The store refuses records that contain `BAD`."""

    @pytest.fixture(autouse=True)
    def _away(self, system: SystemUnderTest) -> None:
        system.refused = b"BAD"

    RECORDS = (an_incident(1), an_incident(2, title="BAD"), an_incident(3))

    def test_a_shard_comes_again_from_the_record_that_failed(self, system: SystemUnderTest) -> None:
        assert system.consume(from_kinesis(self.RECORDS)) == ["1", "2"]
        assert system.titles == ["Outage 1"]
        assert system.report.counts == {Metric.STREAM_RECORDS: 1, Metric.STREAM_RETRIES: 2}

    def test_of_a_queue_the_failed_message_alone_comes_again(self, system: SystemUnderTest) -> None:
        assert system.consume(from_sqs(self.RECORDS), a_stream(source=SQS)) == ["m-1"]
        assert system.titles == ["Outage 1", "Outage 3"]

    def test_an_ordered_queue_keeps_the_order_of_each_group(self, system: SystemUnderTest) -> None:
        records = [*self.RECORDS, an_incident(4)]
        event = from_sqs(records, source=FIFO, groups=["a", "a", "a", "b"])
        assert system.consume(event, a_stream(source=FIFO)) == ["m-1", "m-2"]
        assert system.titles == ["Outage 1", "Outage 4"]

    def test_a_partition_keeps_no_other_back(self, system: SystemUnderTest) -> None:
        event = from_kafka({0: self.RECORDS, 1: [an_incident(4)]})
        assert system.consume(event, a_stream(source=MSK)) == [
            {"partition": "incidents-0", "offset": 1},
            {"partition": "incidents-0", "offset": 2},
        ]
        assert system.titles == ["Outage 1", "Outage 4"]

    def test_when_it_is_back_nothing_is_missing_or_twice(self, system: SystemUnderTest) -> None:
        event = from_kinesis(self.RECORDS)
        again = system.consume(event)
        system.refused = b""
        rest = [one for one in event["Records"] if one["kinesis"]["sequenceNumber"] in again]
        assert system.consume({"Records": rest}) == []
        assert system.titles == ["BAD", "Outage 1", "Outage 3"]


def test_a_record_that_breaks_the_function_is_alone_at_last(
    system: SystemUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lambda halves a batch whose call failed, until the record that is to blame is by itself."""
    put = system.services.manager.put_document

    def sometimes(category: str, document: Any, metadata: Any) -> str:
        if "POISON" in json.dumps(document):
            raise ZeroDivisionError
        return put(category, document, metadata)

    monkeypatch.setattr(system.services.manager, "put_document", sometimes)
    records = [an_incident(number, title=f"{'POISON' if number == 5 else number}") for number in range(10)]
    batches, given_up = [from_kinesis(records)["Records"]], []
    while batches:
        batch = batches.pop()
        try:
            system.consume({"Records": batch})
        except ZeroDivisionError:
            middle = len(batch) // 2
            if middle:
                batches += [batch[:middle], batch[middle:]]
            else:
                given_up += batch
    assert [one["kinesis"]["sequenceNumber"] for one in given_up] == ["5"]
    assert system.titles == [str(number) for number in range(10) if number != 5]
