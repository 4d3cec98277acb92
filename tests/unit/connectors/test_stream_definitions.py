"""Streams as `knowledge.yaml` declares them, subscriptions in the table, and how Lambda is to feed from each."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.table import SqliteTable
from opx.domain.sources import StreamDefinition, StreamKind
from opx.errors import InvalidInputError, KnowledgeConfigError
from opx.ports import Table
from opx.ports.tables import SOURCES
from opx.runtime.knowledge_file import load_knowledge
from opx_aws.event_source_mappings import mapping_of
from opx_streams.streams.definitions import StreamRepository, declared_streams, stream_of, subscription_id
from tests.support.stream_support import ACCOUNT, BROKERS, FIFO, KINESIS, MSK, REDIS, SQS, a_stream

KNOWLEDGE = """
default_category: runbooks/procedures
tiers: {internal: {default_trust: 1.0}}
categories:
  runbooks/procedures:
    {tier: internal, description: d, retention: permanent, schema: {content: string}, embed: [content]}
"""
CATEGORY = "category: runbooks/procedures"


def declared(tmp_path: Path, streams: str) -> dict[str, StreamDefinition]:
    file = tmp_path / "knowledge.yaml"
    file.write_text(KNOWLEDGE + streams)
    return declared_streams(load_knowledge(file), file)


class TestDeclarations:
    def test_a_file_without_the_section_has_none(self, tmp_path: Path) -> None:
        assert declared(tmp_path, "") == {}

    def test_the_repositorys_own_file_can_be_read(self) -> None:
        assert isinstance(declared_streams(load_knowledge()), dict)

    def test_a_stream_has_the_fields_of_its_entry(self, tmp_path: Path) -> None:
        entry = f"{{source: '{BROKERS}', {CATEGORY}, topic: orders, filter: {{a: [1]}}, identity: $.id, tags: [x], "
        secret = f"arn:aws:secretsmanager:{ACCOUNT}:secret:kafka-AbCdEf"
        entry += f"credentials_arn: '{secret}', network: [subnet-0a, sg-0b]}}"
        assert declared(tmp_path, f"streams: {{s: {entry}}}") == {
            "s": StreamDefinition(
                name="s",
                source=BROKERS,
                category="runbooks/procedures",
                topic="orders",
                pattern={"a": [1]},
                identity="$.id",
                tags=("x",),
                credentials_arn=secret,
                network=("subnet-0a", "sg-0b"),
            )
        }

    @pytest.mark.parametrize(
        ("entry", "problem"),
        [
            ("{source: 'x'}", "needs the key 'category'"),
            (f"{{source: '{SQS}', {CATEGORY}, topik: t}}", "unknown key 'topik'"),
            (f"{{source: '{SQS}', category: nowhere}}", "nowhere"),
            (f"{{source: 'arn:aws:sns:{ACCOUNT}:t', {CATEGORY}}}", "is invalid; allowed: the ARN of a Kinesis"),
            (f"{{source: 'kafka://host', {CATEGORY}, topic: orders}}", "is invalid; allowed"),
            (f"{{source: '{MSK}', {CATEGORY}}}", "kafka needs a topic"),
            (f"{{source: '{REDIS}', {CATEGORY}}}", "redis needs a topic"),
            (f"{{source: '{SQS}', {CATEGORY}, topic: orders}}", "sqs has no topic"),
            (f"{{source: '{SQS}', {CATEGORY}, password_secret: p}}", "sqs has no password_secret"),
            (f"{{source: '{KINESIS}', {CATEGORY}, credentials_arn: p}}", "kinesis has no credentials_arn"),
            (f"{{source: '{MSK}', {CATEGORY}, topic: orders, credentials_arn: p}}", "ARN of a secret"),
            (f"{{source: '{MSK}', {CATEGORY}, topic: orders, network: [sg-0a]}}", "network of an MSK cluster is known"),
            (f"{{source: '{BROKERS}', {CATEGORY}, topic: orders, network: [vpc-0a]}}", "ids of subnets"),
            (f"{{source: '{MSK}', {CATEGORY}, topic: .o}}", "is not a valid name of a Kafka topic"),
            (f"{{source: '{SQS}', {CATEGORY}, tags: abc}}", "tags must be a list"),
            (f"{{source: '{SQS}', {CATEGORY}, tags: ['']}}", "tags has an empty string"),
            (f"{{source: '{SQS}', {CATEGORY}, identity: '$..['}}", "JSONPath"),
            (f"{{source: '{SQS}', {CATEGORY}, filter: {{a: b}}}}", "'a' must be a list"),
            (f"{{source: 'redis://:hush@h:6379/0', {CATEGORY}, topic: orders}}", "leave the password out"),
            (f"{{source: 'redis://h/0', {CATEGORY}}}", "subscribe_stream: redis://h/0#key"),
            (f"{{source: 'redis://h:port/0', {CATEGORY}, topic: orders}}", "must be redis://host:port/0"),
            (f"{{source: 'redis://h:1/0?x=y', {CATEGORY}, topic: orders}}", "must be redis://host:port/0"),
        ],
    )
    def test_a_mistake_is_reported_with_file_and_line(self, tmp_path: Path, entry: str, problem: str) -> None:
        with pytest.raises(KnowledgeConfigError) as raised:
            declared(tmp_path, f"streams:\n  s: {entry}\n")
        assert problem in str(raised.value)
        assert str(raised.value).startswith(f"{tmp_path}/knowledge.yaml:8:")
        assert "hush" not in str(raised.value)

    def test_a_name_is_what_objects_can_be_called(self, tmp_path: Path) -> None:
        with pytest.raises(KnowledgeConfigError, match="names are up to 48"):
            declared(tmp_path, f"streams: {{A b: {{source: '{SQS}', {CATEGORY}}}}}")

    def test_a_stream_is_read_once(self, tmp_path: Path) -> None:
        """Two readers would each get a part of it."""
        entry = f"{{source: '{BROKERS}', {CATEGORY}, topic: orders}}"
        other = f"{{source: 'kafka://b-2.example.org:9092', {CATEGORY}, topic: orders}}"
        with pytest.raises(KnowledgeConfigError, match=r"a reads kafka.* already"):
            declared(tmp_path, f"streams: {{a: {entry}, b: {other}}}")

    def test_topics_of_one_cluster_are_streams_of_their_own(self, tmp_path: Path) -> None:
        streams = ", ".join(
            f"{topic}: {{source: '{MSK}', {CATEGORY}, topic: {topic}}}" for topic in ("orders", "parts")
        )
        assert list(declared(tmp_path, f"streams: {{{streams}}}")) == ["orders", "parts"]

    @pytest.mark.parametrize(
        ("source", "kind"),
        [
            (KINESIS, StreamKind.KINESIS),
            (SQS, StreamKind.SQS),
            (MSK, StreamKind.KAFKA),
            (BROKERS, StreamKind.KAFKA),
            (REDIS, StreamKind.REDIS),
            ("rediss://user@cache.example.org:6380/1", StreamKind.REDIS),
        ],
    )
    def test_the_address_determines_the_kind(self, source: str, kind: StreamKind) -> None:
        assert a_stream(source=source).kind is kind

    def test_a_definition_survives_as_json(self) -> None:
        stream = a_stream(source=BROKERS, filter={"a": [1]}, tags=["x"], network=["subnet-0a"])
        assert stream_of(stream.name, json.loads(json.dumps(stream.fields())), load_knowledge()) == stream

    def test_the_same_stream_gets_the_same_name(self) -> None:
        names = {subscription_id(SQS, "", "a"), subscription_id(SQS, "", "a"), subscription_id(SQS, "", "b")}
        assert len(names) == 2


class TestRepository:
    @pytest.fixture
    def table(self, tmp_path: Path) -> Table:
        return SqliteTable(SOURCES, open_database(tmp_path / "opx.db"))

    def repository(self, table: Table, **declared: StreamDefinition) -> StreamRepository:
        return StreamRepository(table, declared, load_knowledge())

    def test_subscriptions_and_declared_streams_are_listed_by_name(self, table: Table) -> None:
        streams = self.repository(table, b=a_stream("b", KINESIS))
        streams.put(a_stream("c", REDIS))
        streams.put(a_stream("a", SQS))
        assert [stream.name for stream in self.repository(table, b=a_stream("b", KINESIS)).all()] == ["a", "b", "c"]

    def test_a_subscription_replaces_the_one_of_its_name(self, table: Table) -> None:
        streams = self.repository(table)
        for tag in ("old", "new"):
            streams.put(a_stream(tags=[tag]))
        assert [stream.tags for stream in streams.all()] == [("new",)]

    def test_declared_stream_is_neither_replaced_nor_removed(self, table: Table) -> None:
        streams = self.repository(table, a=a_stream("a"))
        with pytest.raises(InvalidInputError, match=r"declared in knowledge.yaml; change"):
            streams.put(a_stream("a", SQS))
        with pytest.raises(InvalidInputError, match=r"declared in knowledge.yaml; remove"):
            streams.subscribed("a")

    def test_a_stream_that_is_read_under_another_name_is_refused(self, table: Table) -> None:
        with pytest.raises(InvalidInputError, match=r"a reads .* already"):
            self.repository(table, a=a_stream("a")).put(a_stream("b"))

    def test_an_unknown_name_is_reported_with_the_known_ones(self, table: Table) -> None:
        streams = self.repository(table)
        streams.put(a_stream("a"))
        with pytest.raises(InvalidInputError, match="no stream 'b'; known are: a"):
            streams.subscribed("b")

    def test_a_removed_subscription_is_gone(self, table: Table) -> None:
        streams = self.repository(table)
        streams.put(a_stream("a"))
        streams.remove("a")
        streams.remove("a")
        assert streams.all() == []

    def test_one_that_has_become_wrong_keeps_no_other_back(
        self, table: Table, caplog: pytest.LogCaptureFixture
    ) -> None:
        streams = self.repository(table)
        streams.put(a_stream("a"))
        fields = {**a_stream("b", SQS).fields(), "category": "no/more"}
        table.put({"sourceId": "#streams", "entry": "b", "definition": fields})
        with caplog.at_level(logging.ERROR):
            for _ in range(2):
                assert [stream.name for stream in streams.all()] == ["a"]
        assert caplog.text.count("no/more") == 1


class TestMappings:
    def mapping(self, source: str, **given: Any) -> dict[str, Any]:
        return mapping_of(a_stream("s", source, **given), "dev-consume", failed="arn:failed")

    def test_streams_come_in_batches_of_a_hundred_are_tried_again_three_times_and_halved(self) -> None:
        assert self.mapping(KINESIS) == {
            "BatchSize": 100,
            "MaximumBatchingWindowInSeconds": 5,
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
            "EventSourceArn": KINESIS,
            "MaximumRetryAttempts": 3,
            "BisectBatchOnFunctionError": True,
            "StartingPosition": "TRIM_HORIZON",
            "DestinationConfig": {"OnFailure": {"Destination": "arn:failed"}},
        }

    def test_queues_count_deliveries_themselves(self) -> None:
        assert self.mapping(SQS) == {
            "BatchSize": 100,
            "MaximumBatchingWindowInSeconds": 5,
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
            "EventSourceArn": SQS,
        }

    def test_ordered_queues_hand_out_ten_at_once(self) -> None:
        mapping = self.mapping(FIFO)
        assert (mapping["BatchSize"], "MaximumBatchingWindowInSeconds" in mapping) == (10, False)

    def test_kafka_knows_the_function_by_a_name_that_stays(self) -> None:
        mapping = self.mapping(MSK)
        assert mapping["AmazonManagedKafkaEventSourceConfig"] == {"ConsumerGroupId": "dev-consume-s"}
        assert (mapping["Topics"], mapping["MaximumRetryAttempts"]) == (["incidents"], 3)
        assert mapping["ProvisionedPollerConfig"] == {"MinimumPollers": 1}

    def test_kafka_elsewhere_is_reached_with_a_user_through_a_network(self) -> None:
        secret = f"arn:aws:secretsmanager:{ACCOUNT}:secret:kafka-AbCdEf"
        mapping = self.mapping(BROKERS, credentials_arn=secret, network=["subnet-0a", "sg-0b"])
        servers = ["b-1.example.org:9092", "b-2.example.org:9092"]
        assert mapping["SelfManagedEventSource"] == {"Endpoints": {"KAFKA_BOOTSTRAP_SERVERS": servers}}
        assert mapping["SourceAccessConfigurations"] == [
            {"Type": "VPC_SUBNET", "URI": "subnet:subnet-0a"},
            {"Type": "VPC_SECURITY_GROUP", "URI": "security_group:sg-0b"},
            {"Type": "SASL_SCRAM_512_AUTH", "URI": secret},
        ]

    @pytest.mark.parametrize(("source", "field"), [(KINESIS, "data"), (SQS, "body"), (MSK, "value")])
    def test_filters_are_about_the_record_itself(self, source: str, field: str) -> None:
        (found,) = self.mapping(source, filter={"severity": ["critical"]})["FilterCriteria"]["Filters"]
        assert json.loads(found["Pattern"]) == {field: {"severity": ["critical"]}}
