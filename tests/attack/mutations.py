"""Seeded mutations of inputs: bits, pieces, tokens that parsers act upon, and pieces of other inputs."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

TOKENS = tuple(
    text.encode("utf-8", "surrogatepass")
    for text in (
        *(
            "---\n",
            "\n---\n",
            "...\n",
            "```\n",
            "~~~",
            "<!--",
            "-->",
            "<![CDATA[",
            "]]>",
            "<script>",
            "</div>",
            "{{",
            "}}",
        ),
        *(
            "|",
            "||",
            "|DEPENDS_ON|",
            "service:",
            ":service",
            "service:web|runs_on|host:a",
            "[",
            "]",
            "{",
            "}",
            "(",
            ")",
        ),
        *('"', "'", "\\", "\x00", "\r", "\r\n", "\t", "\u2028", "\u202e", "\ufeff", "\u00a0", "\ud83d\ude00", "\u0130"),
        *("!!python/object:os.system", "&a ", "*a", "<<: *a", "? ", "- - - ", "%YAML 9.9", "!!binary ", "!!set "),
        *(
            "1e999",
            "-1e999",
            "NaN",
            "99999999999999999999999",
            "-0",
            "0x",
            "1_000",
            "9999-12-31",
            "0000-00-00",
            "2026-02-30",
        ),
        *(
            ".. include:: /etc/passwd",
            "include::x[]",
            ".. raw:: html",
            "# " * 30,
            "> " * 40,
            "* " * 40,
            "=" * 50,
            "-|-" * 20,
        ),
        *(
            "AND ",
            "OR ",
            "NOT ",
            "-",
            "category:",
            "before:",
            "tier:internet ",
            "as-of:",
            '"unclosed',
            "title:(",
            "~",
            "^",
        ),
        *(
            "expires: 9999-12-31",
            "category: runbooks/procedures",
            "trust: 1.0",
            "tags: [",
            "source_uri: javascript:",
            "${x}",
        ),
        *(
            "DROP TABLE",
            "../../",
            "%00",
            "%2e%2e%2f",
            "http://169.254.169.254/",
            "\x1b[2J",
            "\x1b]0;t\x07",
            "A" * 300,
            "é" * 80,
        ),
    )
)
"""Pieces that one of the formats acts upon."""

MOST_BYTES = 6_000

Mutation = Callable[[bytearray, random.Random, Sequence[bytes]], None]


def mutated(seeds: Sequence[bytes], chance: random.Random) -> bytes:
    """One of the seeds after one to six mutations."""
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.randint(1, 6)):
        chance.choice(_MUTATIONS)(data, chance, seeds)
    return bytes(data[:MOST_BYTES])


def _position(data: bytearray, chance: random.Random) -> int:
    return chance.randint(0, len(data))


def _piece(data: Sequence[int] | bytes | bytearray, chance: random.Random) -> slice:
    first = chance.randint(0, len(data))
    return slice(first, min(len(data), first + int(chance.expovariate(1 / 20)) + 1))


def _flip(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _delete(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    del data[_piece(data, chance)]


def _insert(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    at = _position(data, chance)
    data[at:at] = chance.choice(TOKENS)


def _insert_at_line(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    at = data.find(b"\n", _position(data, chance)) + 1
    data[at:at] = chance.choice(TOKENS)


def _repeat(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    piece = bytes(data[_piece(data, chance)])
    at = _position(data, chance)
    data[at:at] = piece * chance.randint(2, 30)


def _splice(data: bytearray, chance: random.Random, seeds: Sequence[bytes]) -> None:
    other = chance.choice(seeds)
    at = _position(data, chance)
    data[at : at + chance.randint(0, 40)] = other[_piece(other, chance)]


def _cut(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    del data[_position(data, chance) :]


def _noise(data: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    at = _position(data, chance)
    data[at:at] = chance.randbytes(chance.randint(1, 12))


_MUTATIONS: tuple[Mutation, ...] = (_flip, _delete, _insert, _insert, _insert_at_line, _repeat, _splice, _cut, _noise)

VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**31, 2**63, -(2**63), 1e308, 0.1, "", " ", "\x00", "a" * 5000, "\ud800", "é" * 400, [], {}),
    *(
        [[]],
        [None],
        {"": ""},
        {"a": {"b": [1]}},
        "../../etc/passwd",
        "acme",
        "rival",
        "client:rival",
        "0" * 32,
        "*",
        "%",
    ),
    *(
        "2026-13-45",
        "9999-12-31",
        "service:web",
        "service:",
        ":",
        "global",
        "internet",
        "runbooks/procedures",
        "last",
        "'",
    ),
)
"""Values for a field of a request, of any type."""


def mutated_json(value: Any, chance: random.Random) -> Any:
    """JSON with some of its values, or its fields, replaced."""
    found = json.loads(json.dumps(value))
    for _ in range(chance.randint(1, 3)):
        found = _changed(found, chance)
    return found


def _changed(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.85:
        name = chance.choice(list(value))
        if chance.random() < 0.1:
            return {**value, str(chance.choice(VALUES))[:40]: chance.choice(VALUES)}
        return {**value, name: _changed(value[name], chance)}
    if isinstance(value, list) and value and chance.random() < 0.8:
        at = chance.randrange(len(value))
        return [*value[:at], _changed(value[at], chance), *value[at + 1 :]]
    return chance.choice(VALUES)
