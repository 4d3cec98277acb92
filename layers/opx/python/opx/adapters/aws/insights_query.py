"""A `LogQuery` in the language of CloudWatch Logs Insights.

Nothing that was searched for gets into the query but ASCII letters, digits and `_`: everything else becomes a regular
expression of ours. So no word can end the expression it stands in, or be a command, a comment or another log group
("CloudWatch Logs Insights language query syntax", "filter", "SOURCE").
"""

from __future__ import annotations

import re

from opx.ports.telemetry import LogQuery

_SAFE = re.compile(r"[A-Za-z0-9_]", re.ASCII)
_SPACES = r"\s+"
_ANY_ASCII, _ANY_OTHER = ".", ".{1,4}"
"""A character beyond ASCII has up to four bytes, in case that is what the engine counts."""

_SHOWN = {
    "lines": "fields @timestamp, @logStream, @message | sort @timestamp desc | limit {limit}",
    "over_time": "stats count(*) as lines by bin({bin}s) as time | sort time desc | limit {limit}",
    "by_stream": "stats count(*) as lines by @logStream | sort lines desc | limit {limit}",
    "patterns": "pattern @message | limit {limit}",
}


def insights_query(query: LogQuery) -> str:
    """The query's text; the log group and the times go beside it."""
    filters = [f"filter @message like {_expression(word)}" for word in query.words]
    filters += [f"filter @message not like {_expression(word)}" for word in query.without]
    shown = _SHOWN[query.show].format(limit=int(query.limit), bin=int(query.bin_seconds))
    return " | ".join((*filters, shown))


def _expression(word: str) -> str:
    return "/(?i)" + _SPACES.join("".join(map(_character, part)) for part in word.split()) + "/"


def _character(character: str) -> str:
    if _SAFE.match(character):
        return character
    return _ANY_ASCII if character.isascii() else _ANY_OTHER
