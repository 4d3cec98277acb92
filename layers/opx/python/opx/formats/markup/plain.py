"""Parses formats that are text already: Markdown with optional front matter, plain text, and configuration files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

from opx.errors import UnparsableDocumentError
from opx.formats.source import NOTHING, ParsedSource, Source, cut_lines, filled_lines, not_blank, text_lines
from opx.formats.writing import fenced, heading

LANGUAGES = {
    ".toml": "toml",
    ".ini": "ini",
    ".cfg": "ini",
    ".conf": "conf",
    ".cnf": "ini",
    ".properties": "properties",
    ".env": "sh",
    ".service": "ini",
    ".rules": "yaml",
}
"""Language names for code blocks, by file extension."""


def parse_markdown(source: Source) -> ParsedSource:
    """Reads title and metadata from the front matter, and the text below it. A first heading stays in the text."""
    lines = text_lines(source)
    metadata, read = read_front_matter(lines, source.name)
    problem = NOTHING if metadata is None else "there is only front matter and no text below it; add the text"
    title = (metadata or {}).get("title")
    return ParsedSource(
        title=title if isinstance(title, str) else None,
        metadata=metadata or {},
        lines=not_blank(chain(read, lines), source.name, problem),
    )


def parse_plain(source: Source) -> ParsedSource:
    """Reads the text without title or metadata."""
    return ParsedSource(None, {}, filled_lines(source))


def parse_config(source: Source) -> ParsedSource:
    """Converts the file to code blocks, lazily, with its path as title: searches match its words."""
    lines = filled_lines(source)
    language = LANGUAGES.get(PurePosixPath(source.name).suffix.lower(), "")
    blocks = chain([heading(1, source.name)], fenced(lines, language))
    return ParsedSource(source.name, {}, cut_lines(blocks, source.name))


# -- front matter


MAX_BYTES = 64 * 1024
MAX_DEPTH = 20
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_KEY = re.compile(r"[\"']?[A-Za-z_][\w .-]{0,100}[\"']?\s{0,9}:(\s|\Z)")
_RULE_HINT = "if the first line is meant as a rule, put an empty line below it"


def is_opening(first: str, second: str) -> bool:
    """True if a file that starts with these two lines clearly starts with front matter."""
    return first.rstrip() == "---" and bool(_KEY.match(second))


def read_front_matter(lines: Iterator[str], name: str) -> tuple[dict[str, Any] | None, list[str]]:
    """Returns the front matter, and the lines read that belong to the text. None: the file has no front matter.

    Scalars stay as they are written (`1.10` is not a number), dates become ISO 8601, nulls None. Aliases, deep nesting
    and more than 64 KiB are refused. Raises `UnparsableDocumentError`.
    """
    read: list[str] = []
    size = 0
    for line in lines:
        read.append(line)
        size += len(line.encode())
        if len(read) == 1 and line.rstrip() != "---":
            return None, read
        if len(read) == 2 and not line.strip():  # a rule: front matter doesn't start with an empty line
            return None, read
        if len(read) > 1 and line.rstrip() in ("---", "..."):
            return _parsed("".join(read[1:-1]), name), []
        if size > MAX_BYTES:
            break
    if len(read) > 1 and is_opening(read[0], read[1]):
        limit = f" in the first {MAX_BYTES // 1024} KiB" if size > MAX_BYTES else ""
        raise UnparsableDocumentError(
            f"{name}: no line `---`{limit} closes the front matter; add it below the last key"
        )
    return None, read


def _parsed(text: str, name: str) -> dict[str, Any]:
    try:
        _refuse_tricks(text, name)
        node = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        where = f" in line {mark.line + 2}" if mark else ""
        problem = exc.problem or exc.context
        raise UnparsableDocumentError(
            f"{name}: front matter is not valid YAML{where}: {problem}; {_RULE_HINT}"
        ) from exc
    except yaml.YAMLError as exc:
        problem = " ".join(str(exc).split())
        raise UnparsableDocumentError(f"{name}: front matter is not valid YAML: {problem}") from exc
    if node is None:
        return {}
    if not isinstance(node, yaml.MappingNode):
        raise UnparsableDocumentError(f"{name}: front matter must be a mapping (`key: value` lines); {_RULE_HINT}")
    return _mapping(node, name)


def _refuse_tricks(text: str, name: str) -> None:
    """Checks the events first: they come one by one, while building from hostile YAML takes stack and memory."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.AliasEvent):
            line = event.start_mark.line + 2 if event.start_mark else 2
            raise UnparsableDocumentError(f"{name}: front matter has a YAML alias in line {line}; write the value out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise UnparsableDocumentError(f"{name}: front matter is nested deeper than {MAX_DEPTH} levels; flatten it")


def _mapping(node: yaml.MappingNode, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in node.value:
        line = key.start_mark.line + 2
        if not isinstance(key, yaml.ScalarNode):
            raise UnparsableDocumentError(f"{name}: front matter key in line {line} is not a string; use a plain name")
        if key.value in found:
            raise UnparsableDocumentError(f"{name}: front matter has {key.value!r} again in line {line}; set it once")
        found[key.value] = _value(value, name)
    return found


def _value(node: yaml.Node, name: str) -> Any:
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, name)
    if not isinstance(node, yaml.ScalarNode):
        return [_value(item, name) for item in node.value]
    if node.tag == _TAG + "null":
        return None
    return _iso(node, name) if node.tag == _TAG + "timestamp" else node.value


def _iso(node: yaml.ScalarNode, name: str) -> str:
    try:
        found: date = SafeConstructor().construct_yaml_timestamp(node)
    except (ValueError, AttributeError) as exc:  # the latter: a string tagged as a timestamp by hand
        line = node.start_mark.line + 2
        raise UnparsableDocumentError(f"{name}: front matter date {node.value!r} in line {line} doesn't exist") from exc
    return found.isoformat()
