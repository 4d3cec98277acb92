"""Redis streams on a real Redis: no record is lost or stored twice, and each problem is reported once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from opx_streams import capability
from opx_streams.redis_streams import ATTEMPTS, BATCH, GROUP, RedisStreamFeed
from opx_streams.streams.taking import StreamTaker
from tests.support.cli_support import Opx
from tests.support.redis_server import LocalRedis, NoRedisError, running_redis
from tests.support.stream_support import SystemUnderTest, a_stream, an_incident

pytestmark = pytest.mark.redis

KEY = "incidents"


@pytest.fixture(scope="module")
def started() -> Iterator[LocalRedis]:
    try:
        with running_redis() as server:
            yield server
    except NoRedisError as exc:
        pytest.skip(str(exc))


@pytest.fixture
def server(started: LocalRedis) -> LocalRedis:
    with started.client() as client:
        client.flushall()
    return started


@pytest.fixture
def client(server: LocalRedis) -> Iterator[redis.Redis]:
    with server.client() as made:
        yield made


@pytest.fixture
def system(tmp_path: Path) -> Iterator[SystemUnderTest]:
    made = SystemUnderTest(tmp_path)
    with made.services:
        yield made


class Feeds:
    """Feeds of one stream, as processes of their own would have them. What was delivered is abandoned at once."""

    def __init__(self, server: LocalRedis, system: SystemUnderTest) -> None:
        self._server = server
        self._system = system
        self._made: list[RedisStreamFeed] = []

    def feed(self, *, consumer: str = "", abandoned_ms: int = 0, **given: Any) -> RedisStreamFeed:
        stream = a_stream(source=self._server.url, topic=KEY, **given)
        made = RedisStreamFeed(stream, StreamTaker(stream, self._system.services.manager), abandoned_ms=abandoned_ms)
        made._consumer = consumer or made._consumer
        self._made.append(made)
        return made

    def close(self) -> None:
        for made in self._made:
            made.close()


@pytest.fixture
def feeds(server: LocalRedis, system: SystemUnderTest) -> Iterator[Feeds]:
    made = Feeds(server, system)
    yield made
    made.close()


def add(client: redis.Redis, *records: Any) -> None:
    for record in records:
        client.xadd(KEY, {"body": json.dumps(record)})


def pending(client: redis.Redis) -> int:
    found: Any = client.xpending(KEY, GROUP)
    return int(found["pending"])


def test_existing_records_are_read_from_the_beginning(
    client: redis.Redis, feeds: Feeds, system: SystemUnderTest
) -> None:
    add(client, an_incident(1), an_incident(2))
    assert feeds.feed().poll() == ["stream incidents: 2 of 2 records put"]
    assert system.titles == ["Outage 1", "Outage 2"]


def test_a_stream_may_begin_later(client: redis.Redis, feeds: Feeds, system: SystemUnderTest) -> None:
    feed = feeds.feed()
    assert feed.poll() == []
    add(client, an_incident(1))
    assert feed.poll() == ["stream incidents: 1 of 1 records put"]


def test_records_come_in_batches_of_a_hundred_and_are_done(client: redis.Redis, feeds: Feeds) -> None:
    add(client, *(an_incident(number) for number in range(BATCH + 5)))
    feed = feeds.feed()
    assert [feed.poll(), feed.poll(), feed.poll()] == [
        ["stream incidents: 100 of 100 records put"],
        ["stream incidents: 5 of 5 records put"],
        [],
    ]
    assert pending(client) == 0


def test_fields_are_a_record_where_none_is_the_whole(
    client: redis.Redis, feeds: Feeds, system: SystemUnderTest
) -> None:
    client.xadd(KEY, {"title": "Disk outage", "content": "Disk full.", "message": "see content"})
    feeds.feed().poll()
    assert system.titles == ["Disk outage"]


def test_filtered_records_are_acknowledged(client: redis.Redis, feeds: Feeds, system: SystemUnderTest) -> None:
    add(client, an_incident(1, severity="minor"))
    assert feeds.feed(filter={"severity": ["critical"]}).poll() == ["stream incidents: 0 of 1 records put"]
    assert (system.titles, pending(client)) == ([], 0)


def test_several_consumers_share_a_stream(client: redis.Redis, feeds: Feeds, system: SystemUnderTest) -> None:
    add(client, *(an_incident(number) for number in range(150)))
    first, second = feeds.feed(consumer="a", abandoned_ms=60_000), feeds.feed(consumer="b", abandoned_ms=60_000)
    assert first.poll() == ["stream incidents: 100 of 100 records put"]
    assert second.poll() == ["stream incidents: 50 of 50 records put"]
    assert len(system.keys) == 150


def test_records_abandoned_by_a_process_are_handled_by_another(
    client: redis.Redis, feeds: Feeds, system: SystemUnderTest
) -> None:
    feeds.feed().poll()
    add(client, an_incident(1))
    client.xreadgroup(GROUP, "gone", {KEY: ">"})
    assert feeds.feed(abandoned_ms=60_000).poll() == []
    assert feeds.feed().poll() == ["stream incidents: 1 of 1 records put"]
    assert (system.titles, pending(client)) == (["Outage 1"], 0)


def test_a_crash_between_storing_and_acknowledging_makes_no_second_document(
    client: redis.Redis, feeds: Feeds, system: SystemUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = feeds.feed()
    feed.poll()
    add(client, an_incident(1))
    with monkeypatch.context() as crash:
        crash.setattr(feed._redis, "xack", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            feed.poll()
    assert pending(client) == 1
    assert feeds.feed().poll() == ["stream incidents: 1 of 1 records put"]
    assert (len(system.keys), pending(client)) == (1, 0)


def test_a_record_that_ends_its_process_again_and_again_is_set_aside(
    client: redis.Redis, feeds: Feeds, system: SystemUnderTest
) -> None:
    feeds.feed().poll()
    add(client, an_incident(1))
    client.xreadgroup(GROUP, "gone", {KEY: ">"})
    for _ in range(ATTEMPTS - 1):
        client.xautoclaim(KEY, GROUP, "gone", 0)
    add(client, an_incident(2))
    assert feeds.feed().poll() == ["stream incidents: 1 of 1 records put, 1 set aside in incidents:failed"]
    assert (system.titles, pending(client)) == (["Outage 2"], 0)
    aside: Any = client.xrange(f"{KEY}:failed")
    assert [json.loads(fields[b"body"]) for _, fields in aside] == [an_incident(1)]


def test_while_the_store_is_away_records_wait_in_their_order_and_are_not_counted(
    client: redis.Redis, feeds: Feeds, system: SystemUnderTest
) -> None:
    add(client, an_incident(1), an_incident(2, title="BAD"), an_incident(3))
    system.refused = b"BAD"
    feed = feeds.feed()
    assert feed.poll() == ["stream incidents: records wait, as can't be reached"]
    assert [feed.poll() for _ in range(5)] == [[]] * 5
    assert pending(client) == 2
    system.refused = b""
    assert feed.poll() == ["stream incidents: 2 of 2 records put"]
    assert (system.titles, client.exists(f"{KEY}:failed")) == (["BAD", "Outage 1", "Outage 3"], 0)


def test_a_record_that_cannot_be_read_is_a_failed_item_and_keeps_no_other_back(
    client: redis.Redis, feeds: Feeds, system: SystemUnderTest
) -> None:
    client.xadd(KEY, {"body": '{"title": "cut'})
    add(client, an_incident(1))
    assert feeds.feed().poll() == ["stream incidents: 2 of 2 records put"]
    assert system.titles == ["Outage 1"]
    assert len(list(system.services.corpus.failures.items())) == 1


def test_a_key_that_is_not_a_stream_is_reported_once(client: redis.Redis, feeds: Feeds) -> None:
    client.set(KEY, "text")
    feed = feeds.feed()
    ((line,), again) = feed.poll(), feed.poll()
    assert "wrong kind of value" in line
    assert again == []


def test_a_deleted_group_is_created_again(client: redis.Redis, feeds: Feeds, system: SystemUnderTest) -> None:
    feed = feeds.feed()
    feed.poll()
    client.xgroup_destroy(KEY, GROUP)
    add(client, an_incident(1))
    feed.poll()
    feed.poll()
    assert system.titles == ["Outage 1"]


class TestAway:
    @pytest.fixture
    def server(self, started: LocalRedis) -> Iterator[LocalRedis]:
        with running_redis() as own:
            yield own

    def test_an_outage_is_reported_once_and_reading_resumes_when_redis_is_back(
        self, server: LocalRedis, feeds: Feeds, system: SystemUnderTest
    ) -> None:
        feed = feeds.feed()
        assert feed.poll() == []
        with server.client() as client:
            add(client, an_incident(1))
        server.stop()
        ((line,), again) = feed.poll(), feed.poll()
        assert "can't be read (ConnectionError)" in line
        assert again == []
        server.start()
        assert feed.poll() == ["stream incidents: 1 of 1 records put"]
        server.stop()
        assert len(feed.poll()) == 1


class TestPassword:
    @pytest.fixture
    def server(self, started: LocalRedis) -> Iterator[LocalRedis]:
        with running_redis("right") as own:
            yield own

    @pytest.mark.parametrize("password", ["", "wrong"])
    def test_a_refused_password_is_reported_without_its_value(
        self, server: LocalRedis, system: SystemUnderTest, password: str
    ) -> None:
        stream = a_stream(source=server.url, password_secret="redis")
        feed = RedisStreamFeed(stream, StreamTaker(stream, system.services.manager), password=lambda: password)
        assert feed.poll() == ["stream incidents: Redis refuses the password: see password_secret"]
        assert feed.poll() == []
        feed.close()

    def test_the_right_password_is_a_secret(self, server: LocalRedis, system: SystemUnderTest) -> None:
        with server.client() as client:
            add(client, an_incident(1))
        given = {"topic": KEY, "password_secret": "redis"}
        system.services.part(capability.StreamIngestion).control.subscribe(
            server.url, "operations/incidents", None, name="live", **given
        )
        (feed,) = system.services.connectors.stream_feeds()
        ((line,), again) = feed.poll(), feed.poll()
        assert "redis" in line
        assert again == []
        system.services.ports.secrets.put("redis", "right")  # type: ignore[attr-defined]
        assert feed.poll() == ["stream live: 1 of 1 records put"]
        feed.close()  # type: ignore[attr-defined]


class TestRunning:
    def test_the_running_process_ingests_a_stream(
        self, server: LocalRedis, client: redis.Redis, system: SystemUnderTest
    ) -> None:
        system.services.manager.subscribe_stream(f"{server.url}#{KEY}", "internal", "operations/incidents")
        add(client, an_incident(1))
        lines: list[str] = []
        (feed,) = system.services.connectors.stream_feeds()
        runner = system.services.runner(lines.append, [feed])
        while runner.round():
            pass
        feed.close()  # type: ignore[attr-defined]
        assert [line.partition(": ")[2] for line in lines] == ["1 of 1 records put"]
        assert system.titles == ["Outage 1"]

    def test_streams_come_and_go_while_it_runs(
        self, server: LocalRedis, client: redis.Redis, system: SystemUnderTest
    ) -> None:
        (feed,) = system.services.connectors.stream_feeds()
        assert feed.poll() == []
        control = system.services.part(capability.StreamIngestion).control
        control.subscribe(server.url, "operations/incidents", None, name="live", topic=KEY)
        add(client, an_incident(1))
        assert feed.poll() == ["stream live: 1 of 1 records put"]
        control.end("live")
        add(client, an_incident(2))
        assert feed.poll() == []
        assert system.titles == ["Outage 1"]

    def test_the_command_ingests_a_stream(self, server: LocalRedis, client: redis.Redis, tmp_path: Path) -> None:
        opx = Opx(tmp_path)
        add(client, an_incident(1))
        opx("stream", "add", server.url, "--topic", KEY, "--category", "operations/incidents", "--name", "live")
        result = opx("run", "--once")
        assert "stream live: 1 of 1 records put" in result.output, result.output
        assert "Outage 1" in opx("search", "disk full").output
