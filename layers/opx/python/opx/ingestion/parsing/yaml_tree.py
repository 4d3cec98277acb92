"""The outline of YAML by line numbers. Nothing is built from it: aliases stay names, so that no file can unfold itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

MAX_DEPTH = 100
MAX_EVENTS = 200_000
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class TangledYamlError(Exception):
    """It can't be outlined: the text says why, and where."""


@dataclass(slots=True)
class Part:
    """A scalar, with its `text`, or a collection. `line` is where it begins, from 0.

    `keys` names the items of a mapping, None is a sequence's. `inline` collections stand between brackets.
    """

    line: int
    text: str = ""
    keys: list[str] | None = None
    items: list[Part] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    """Where the items begin: in a mapping, their keys."""

    kind: str = "scalar"
    inline: bool = False

    def get(self, *path: str) -> Part | None:
        """What stands under keys within keys."""
        found: Part | None = self
        for key in path:
            found = found.items[found.keys.index(key)] if found and found.keys and key in found.keys else None
        return found

    def texts(self, *path: str) -> str:
        """The scalar there, or ""."""
        found = self.get(*path)
        return found.text if found is not None else ""


def documents(text: str) -> list[Part]:
    """The parts at the top of each document. Raises `TangledYamlError` for what isn't YAML, or too deep or too much."""
    try:
        return list(_documents(text))
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        where = f" in line {mark.line + 1}" if mark else ""
        raise TangledYamlError(f"not valid YAML{where} ({exc.problem or exc.context})") from exc
    except yaml.YAMLError as exc:
        raise TangledYamlError(f"not valid YAML ({' '.join(str(exc).split())})") from exc


def _documents(text: str) -> Iterator[Part]:
    open_parts: list[Part] = []
    for count, event in enumerate(yaml.parse(text, Loader=_LOADER)):
        if count > MAX_EVENTS or len(open_parts) > MAX_DEPTH:
            raise TangledYamlError(f"YAML of more than {MAX_EVENTS:,} values or {MAX_DEPTH} levels")
        if isinstance(event, yaml.CollectionEndEvent):
            part = open_parts.pop()
        elif isinstance(event, yaml.NodeEvent):
            part = _part(event)
        else:
            continue
        if isinstance(event, yaml.CollectionStartEvent):
            open_parts.append(part)
        elif open_parts:
            _put(part, open_parts)
        else:
            yield part


def _part(event: yaml.NodeEvent) -> Part:
    line = event.start_mark.line if event.start_mark else 0
    if isinstance(event, yaml.MappingStartEvent):
        return Part(line, kind="mapping", keys=[], inline=bool(event.flow_style))
    if isinstance(event, yaml.SequenceStartEvent):
        return Part(line, kind="sequence", inline=bool(event.flow_style))
    if isinstance(event, yaml.ScalarEvent):
        null = event.value == "" or (event.implicit[0] and event.value in ("~", "null"))
        return Part(line, event.value, kind="null" if null else "scalar")
    return Part(line, f"*{event.anchor}", kind="alias")


def _put(part: Part, open_parts: list[Part]) -> None:
    """Into the collection around it. In a mapping keys and values come by turns."""
    around = open_parts[-1]
    if around.keys is None:
        around.items.append(part)
        around.lines.append(part.line)
    elif len(around.keys) == len(around.items):
        around.keys.append(part.text if part.kind == "scalar" else "?")
        around.lines.append(part.line)
    else:
        around.items.append(part)
