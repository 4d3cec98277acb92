"""Searches log lines in Loki.

No word can become a command: it gets into a query as a quoted regular expression in which each of its characters stands for
itself ("LogQL: Log query language", Grafana Loki documentation; syntax of RE2).
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from secrets import token_hex

import msgspec

from opx.errors import InvalidInputError, StoreUnavailableError
from opx.ports.telemetry import LogProgress, LogQuery
from opx.runtime.knowledge_file import Marked
from opx_telemetry.servers import ACCESS, Query, Server, ServerApi, Servers, read_server

log = logging.getLogger(__name__)

LOKI = "loki"
GROUP = "$group"
ANY = "*"

_NOT_PLAIN = re.compile(r"([^\w])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Loki:
    """The declared server, and its streams: a selector for each log group, or for all whose names begin so (`shop-*`).
    `$group` in a selector stands for the quoted name."""

    server: Server
    log_groups: Mapping[str, str]

    def selector(self, log_group: str) -> str:
        """The selector of a group; "" for one that isn't declared."""
        prefixes = (name for name in self.log_groups if name.endswith(ANY) and log_group.startswith(name[:-1]))
        name = log_group if log_group in self.log_groups else next(prefixes, "")
        return self.log_groups.get(name, "").replace(GROUP, json.dumps(log_group, ensure_ascii=False))


def read_loki(entry: Marked) -> Loki:
    """Reads the server and its log groups. Raises `KnowledgeConfigError`."""
    fields = entry.fields(required=("url", "log_groups"), optional=ACCESS)
    groups = {name: _selector(name, one) for name, one in fields["log_groups"].entries().items()}
    if not groups:
        raise fields["log_groups"].error('log_groups must name one at least, as in {shop: {app="shop"}}')
    return Loki(read_server(LOKI, fields), groups)


def _selector(name: str, entry: Marked) -> str:
    text = entry.text().replace(f'"{GROUP}"', GROUP)
    if not (text.startswith("{") and text.endswith("}") and "=" in text):
        raise entry.error(f"{entry.path} must be a selector of streams such as '{{app=\"shop\"}}'")
    if name.endswith(ANY) and GROUP not in text:
        raise entry.error(f"{entry.path} must have {GROUP} for the name of the log group, as in '{{app={GROUP}}}'")
    return text


class _Summary(msgspec.Struct, frozen=True, rename="camel"):
    total_bytes_processed: float = 0


class _Stats(msgspec.Struct, frozen=True):
    summary: _Summary = _Summary()


class _Value(msgspec.Struct, frozen=True, array_like=True):
    """A line, or a number of them as a string. Further elements, such as metadata, are ignored."""

    at: str | float
    text: str


class _Stream(msgspec.Struct, frozen=True):
    values: list[_Value]
    stream: dict[str, str] = {}
    metric: dict[str, str] = {}


class _Found(msgspec.Struct, frozen=True):
    result: list[_Stream]
    stats: _Stats = _Stats()


class _Size(msgspec.Struct, frozen=True):
    bytes: float = 0


@dataclass(frozen=True, slots=True)
class LokiLogs:
    """A `LogStore`. Loki answers a query in one reply: the first progress is the size of the streams, as its index has it,
    the second one the answer."""

    declared: Loki
    servers: Servers
    seconds: float
    _running: dict[str, Iterator[LogProgress]] = field(default_factory=dict)

    def start(self, query: LogQuery) -> str:
        """Raises `InvalidInputError` for patterns."""
        if query.show == "patterns":
            raise InvalidInputError("Loki finds no patterns of lines: show lines, over_time or by_stream")
        query_id = token_hex(8)
        self._running[query_id] = self._steps(query)
        return query_id

    def progress(self, query_id: str) -> LogProgress:
        try:
            found = next(self._running[query_id])
        except (ValueError, OverflowError) as exc:
            raise StoreUnavailableError(f"{LOKI}: the reply has a malformed number: {str(exc)[:100]}") from exc
        if found.is_done:
            self.stop(query_id)
        return found

    def stop(self, query_id: str) -> None:
        self._running.pop(query_id, None)

    def _steps(self, query: LogQuery) -> Iterator[LogProgress]:
        with self.servers.connected(self.declared.server, seconds=self.seconds / 2) as api:
            yield LogProgress(False, scanned_bytes=self._size(api, query))
            yield self._lines(api, query) if query.show == "lines" else self._counts(api, query)

    def _size(self, api: ServerApi, query: LogQuery) -> int:
        """The bytes of the streams; 0 if the server can't look them up, as before version 2.8."""
        parameters = {"query": self.declared.selector(query.log_group), **_between(query.start, query.end + 1)}
        try:
            return int(api.bare("/loki/api/v1/index/stats", parameters, _Size).bytes)
        except StoreUnavailableError as exc:
            log.warning("the size of a log query is unknown, so that it isn't limited: %s", exc)
            return 0

    def _lines(self, api: ServerApi, query: LogQuery) -> LogProgress:
        limited: Query = {"limit": query.limit + 1, "direction": "backward"}
        found, warnings = _ask(api, self._matching(query), query.start, query.end + 1, limited)
        lines = [(int(line.at), one.stream, line.text) for one in found.result for line in one.values]
        lines.sort(key=lambda line: -line[0])
        rows = [
            {"time": _time(at // 10**6), "stream": _labels(labels), "message": text}
            for at, labels, text in lines[: query.limit]
        ]
        more = f"only the newest {query.limit} lines were read, and Loki doesn't count the others"
        return _progress(found, rows, len(rows), warnings, [more] if len(lines) > len(rows) else [])

    def _counts(self, api: ServerApi, query: LogQuery) -> LogProgress:
        """Counts the lines of each bin: a value is that of the bin that ends at its time."""
        size, by_time = query.bin_seconds, query.show == "over_time"
        counted = f"count_over_time({self._matching(query)}[{size}s])"
        bins = -(-(query.end - query.start) // size)
        end = query.start + bins * size + 1  # an end that is the start is refused
        counted = f"sum({counted})" if by_time else counted
        found, warnings = _ask(api, counted, query.start + size, end, {"step": size})
        numbers: Counter[str] = Counter()
        for one in found.result:
            for value in one.values:
                name = _time(1000 * (int(value.at) - size)) if by_time else _labels(one.metric)
                numbers[name] += int(float(value.text))
        ordered = sorted(numbers.items(), reverse=True) if by_time else numbers.most_common()
        rows = [{"time" if by_time else "stream": name, "lines": str(count)} for name, count in ordered[: query.limit]]
        more = [f"only the first {len(rows)} of {len(ordered)} rows"] if len(ordered) > len(rows) else []
        return _progress(found, rows, numbers.total(), warnings, more)

    def _matching(self, query: LogQuery) -> str:
        filters = [f" |~ {_expression(word)}" for word in query.words]
        filters += [f" !~ {_expression(word)}" for word in query.without]
        return self.declared.selector(query.log_group) + "".join(filters)


def _ask(api: ServerApi, expression: str, start: int, end: int, more: Query) -> tuple[_Found, list[str]]:
    return api.get("/loki/api/v1/query_range", {"query": expression, **_between(start, end), **more}, _Found)


def _expression(word: str) -> str:
    """A quoted regular expression for a word, in any case; its spaces stand for one or more."""
    parts = (_NOT_PLAIN.sub(lambda found: _escaped(found[0]), part) for part in word.split())
    return json.dumps("(?i)" + r"\s+".join(parts), ensure_ascii=False)


def _escaped(character: str) -> str:
    return f"\\{character}" if character.isascii() else character


def _between(start: int, end: int) -> Query:
    """The times in nanoseconds; `end` is excluded from lines, and included in numbers."""
    return {"start": start * 10**9, "end": end * 10**9}


def _time(milliseconds: int) -> str:
    """A time as CloudWatch shows it."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _labels(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(labels.items()))


def _progress(
    found: _Found, rows: Sequence[Mapping[str, str]], matched: int, warnings: list[str], notes: list[str]
) -> LogProgress:
    scanned = int(found.stats.summary.total_bytes_processed)
    return LogProgress(True, tuple(rows), matched, scanned, complete=not warnings, notes=(*warnings, *notes))
