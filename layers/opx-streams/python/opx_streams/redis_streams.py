"""Reads Redis streams by a consumer group, so that several processes share a stream and none loses a record."""

from __future__ import annotations

import json
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from opx.domain.sources import StreamDefinition, StreamKind
from opx.errors import PluginError, SecretNotFoundError, StoreUnavailableError
from opx_streams.streams.taking import RecordTaker, StreamRecord

GROUP = "opx-knowledge"
BATCH = 100
ATTEMPTS = 3
"""Deliveries of a record before it is set aside, in a stream with the suffix `:failed`."""

ABANDONED_MS = 60_000
"""A record that was delivered this many ms ago and isn't done belongs to a process that is gone, or is delivered again."""

Entry = tuple[bytes, dict[bytes, bytes]]

_BODIES = ("body", "data", "event", "json", "message", "payload", "value")
SECONDS = 5.0


class RedisStreamFeed:
    """A `Feed` of one stream. Records are acknowledged when their documents are in the corpus store.

    `password` is read for each new connection, if the stream has one.
    """

    def __init__(
        self,
        definition: StreamDefinition,
        take: RecordTaker,
        *,
        password: Callable[[], str] = lambda: "",
        abandoned_ms: int = ABANDONED_MS,
    ) -> None:
        self._definition = definition
        self._key = definition.topic
        self._take = take
        self._password = password
        self._abandoned_ms = abandoned_ms
        self._consumer = f"{socket.gethostname()}-{os.getpid()}"
        self._redis: Any = None
        self._waiting: deque[Entry] = deque()
        self._set_aside = 0
        self._ready = False
        self._last_problem = ""

    def poll(self) -> Sequence[str]:
        """Stores the documents of new records; returns a line about them, or about a problem, which is reported once."""
        try:
            line = self._stored()
        except redis.RedisError as exc:
            self._ready = False
            return self._once(_problem(exc))
        except (PluginError, SecretNotFoundError) as exc:
            return self._once(str(exc))
        except StoreUnavailableError as exc:
            return self._once(f"records wait, as {exc}")
        self._last_problem = ""
        return [f"stream {self._definition.name}: {line}"] if line else []

    def close(self) -> None:
        if self._redis is not None:
            self._redis.close()

    def _once(self, line: str) -> list[str]:
        last, self._last_problem = self._last_problem, line
        return [] if line == last else [f"stream {self._definition.name}: {line}"]

    def _stored(self) -> str:
        """Stores records. Those that a store refused wait here: they are not at fault, and don't count as delivered again."""
        if not self._ready:
            self._connect()
            self._join()
        if not self._waiting:
            self._waiting.extend(self._abandoned())
            self._waiting.extend(self._new(BATCH - len(self._waiting)))
        count, put = len(self._waiting), 0
        while self._waiting:
            put += self._handle(self._waiting[0])
            self._waiting.popleft()
        aside, self._set_aside = self._set_aside, 0
        parts = [f"{put:,} of {count:,} records put"] if count else []
        parts += [f"{aside:,} set aside in {self._key}:failed"] if aside else []
        return ", ".join(parts)

    def _connect(self) -> None:
        self.close()
        password = self._password() if self._definition.password_secret else ""
        self._redis = redis.Redis.from_url(
            self._definition.source,
            password=password or None,
            socket_timeout=SECONDS,
            socket_connect_timeout=SECONDS,
            retry=Retry(NoBackoff(), 1),  # once, for a connection that Redis closed; others have their turn meanwhile
        )

    def _join(self) -> None:
        """Creates the group, which begins with the stream's existing records."""
        try:
            self._redis.xgroup_create(self._key, GROUP, id="0", mkstream=True)
        except redis.ResponseError as exc:
            if not str(exc).startswith("BUSYGROUP"):
                raise
        self._ready = True

    def _new(self, count: int) -> list[Entry]:
        if count <= 0:
            return []
        found = self._redis.xreadgroup(GROUP, self._consumer, {self._key: ">"}, count=count)
        entries = found.values() if isinstance(found, dict) else (entries for _, entries in found or ())
        return [entry for some in entries for entry in _flat(some)]

    def _abandoned(self) -> list[Entry]:
        """Records that were delivered and never done; those delivered too often are set aside."""
        claimed = self._redis.xautoclaim(self._key, GROUP, self._consumer, self._abandoned_ms, count=BATCH)[1]
        entries = [(key, fields) for key, fields in claimed if fields is not None]
        if not entries:
            return []
        counts = {
            one["message_id"]: one["times_delivered"]
            for key, _ in entries
            for one in self._redis.xpending_range(self._key, GROUP, key, key, 1)
        }
        again = []
        for key, fields in entries:
            if counts.get(key, 0) > ATTEMPTS:
                self._give_up(key, fields)
            else:
                again.append((key, fields))
        return again

    def _give_up(self, key: bytes, fields: dict[bytes, bytes]) -> None:
        with self._redis.pipeline(transaction=True) as both:
            both.xadd(f"{self._key}:failed", {**fields, b"opx-id": key})
            both.xack(self._key, GROUP, key)
            both.execute()
        self._set_aside += 1

    def _handle(self, entry: Entry) -> bool:
        key, fields = entry
        object_key = self._take.take(StreamRecord(key.decode(), _body(fields)))
        self._redis.xack(self._key, GROUP, key)
        return bool(object_key)


def _flat(entries: Any) -> list[Entry]:
    """Entries as pairs: newer protocols of Redis nest them in one list more."""
    if entries and isinstance(entries[0], list) and entries[0] and isinstance(entries[0][0], tuple | list):
        return [(key, fields) for some in entries for key, fields in some]
    return [(key, fields) for key, fields in entries]


def _body(fields: dict[bytes, bytes]) -> bytes:
    """The only field as the whole record, or all fields as an object."""
    named = {name.decode("utf-8", "replace"): value for name, value in fields.items()}
    if len(named) == 1:
        ((name, value),) = named.items()
        if name in _BODIES:
            return value
    return json.dumps({name: value.decode("utf-8", "replace") for name, value in named.items()}).encode()


def _problem(error: Exception) -> str:
    if isinstance(error, redis.AuthenticationError):
        return "Redis refuses the password: see password_secret"
    if isinstance(error, redis.ResponseError):
        return f"Redis refuses: {error}"
    return f"Redis can't be read ({type(error).__name__}); retrying"


class RedisFeeds:
    """A `Feed` of all Redis streams, including those subscribed to while the process runs."""

    def __init__(
        self, streams: Callable[[], Sequence[StreamDefinition]], feed_of: Callable[[StreamDefinition], RedisStreamFeed]
    ) -> None:
        self._streams = streams
        self._feed_of = feed_of
        self._feeds: dict[str, tuple[StreamDefinition, RedisStreamFeed]] = {}

    def poll(self) -> Sequence[str]:
        wanted = {stream.name: stream for stream in self._streams() if stream.kind is StreamKind.REDIS}
        for name, (definition, feed) in list(self._feeds.items()):
            if wanted.get(name) != definition:
                feed.close()
                del self._feeds[name]
        for name, definition in wanted.items():
            if name not in self._feeds:
                self._feeds[name] = (definition, self._feed_of(definition))
        return [line for _, feed in self._feeds.values() for line in feed.poll()]

    def close(self) -> None:
        for _, feed in self._feeds.values():
            feed.close()
