"""Splits YAML by documents and paths of keys: the file's own lines in code blocks, under headings that make them findable.

The YAML is never constructed, only outlined by line numbers: aliases stay names, so that no file can expand itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any

import yaml

from opx.domain.documents import Remark, RemarkKind
from opx.errors import UnparsableDocumentError
from opx.formats.data.json_mapping import parse_record
from opx.formats.source import ParsedSource, Source, cut_lines, filled_lines, read_up_to
from opx.formats.writing import PIECE, fenced, heading

MAX_CHARACTERS = 2 * 1024 * 1024
"""Larger files are kept as plain code blocks."""

_NAMES = ("name", "alert", "record", "id", "job_name", "title")
_VERBS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_COMMENT = re.compile(r"[ \t]*(?:#.*)?\n?\Z")
_KEY_ALONE = re.compile(r"[ \t]*[^\s#][^\n]*:[ \t]*\n\s*\Z")

MAX_DEPTH = 100
MAX_EVENTS = 200_000
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse_yaml(source: Source) -> ParsedSource:
    """Converts the file to sections; through the category's JSON mapping if it is one mapping with its title and content.

    Invalid YAML, such as a template, is kept as plain code blocks and remarked on.
    """
    name = source.name
    lines = filled_lines(source)
    held, size = read_up_to(lines, MAX_CHARACTERS)
    if size > MAX_CHARACTERS:
        return _plain(name, chain(held, lines), f"more than {MAX_CHARACTERS // 1024} KiB")
    try:
        found = documents("".join(held))
    except TangledYamlError as exc:
        return _plain(name, iter(held), str(exc))
    mapped = _mapped(found, source)
    if mapped is not None:
        return mapped
    remarks = [remark for document in found for remark in _repeated(document, name)]
    title, metadata = _identity(found)
    sections = _Sections("".join(held).splitlines(keepends=True))
    blocks = chain([heading(1, title or name)], sections.all_of(found))
    return ParsedSource(title or name, metadata, cut_lines(blocks, name), remarks)


def _plain(name: str, lines: Iterator[str], problem: str) -> ParsedSource:
    remark = Remark(RemarkKind.IRREGULAR, f"{name}: {problem}, so it is kept as plain text without sections")
    return ParsedSource(name, {}, cut_lines(chain([heading(1, name)], fenced(lines, "yaml")), name), [remark])


def _mapped(found: list[YamlPart], source: Source) -> ParsedSource | None:
    if not source.category.json_mapping or len(found) != 1 or found[0].kind != "mapping":
        return None
    if any(part.kind == "alias" for part in _all_parts(found[0])):
        return None
    try:
        return parse_record(_data(found[0]), source)
    except UnparsableDocumentError:
        return None


def _all_parts(document: YamlPart) -> Iterator[YamlPart]:
    stack = [document]
    while stack:
        part = stack.pop()
        yield part
        stack.extend(part.items)


def _data(part: YamlPart) -> Any:
    """Values with scalars as they are written; of a repeated key the last counts."""
    if part.keys is not None:
        return {key: _data(item) for key, item in zip(part.keys, part.items, strict=True)}
    if part.kind == "sequence":
        return [_data(item) for item in part.items]
    return None if part.kind == "null" else part.text


def _identity(found: list[YamlPart]) -> tuple[str, dict[str, Any]]:
    """The title of a file that has one subject, and the metadata that it declares."""
    if len(found) != 1:
        return "", {}
    if found[0].get("openapi") or found[0].get("swagger"):
        version = found[0].texts("info", "version")
        return found[0].texts("info", "title"), {"version": version} if version else {}
    return _label(found[0]), {}


def _label(part: YamlPart) -> str:
    """`Deployment checkout` for a Kubernetes object; the first item's name for a playbook."""
    kind, name = part.texts("kind"), part.texts("metadata", "name")
    if kind:
        return f"{kind} {name}".strip()
    if part.kind == "sequence" and len(part.items) == 1:
        return _name(part.items[0])
    return part.texts("name") if part.get("apiVersion") else ""


def _name(part: YamlPart) -> str:
    for key in _NAMES:
        if name := part.texts(key):
            return f"{key.title()} {name}" if key in ("alert", "record") else name
    return ""


def _repeated(document: YamlPart, name: str) -> Iterator[Remark]:
    for part in _all_parts(document):
        if part.keys and len(set(part.keys)) < len(part.keys):
            text = f"{name}: a key is given again in the mapping of line {part.line + 1}; most programs use the last"
            yield Remark(RemarkKind.IRREGULAR, text)


@dataclass(frozen=True, slots=True)
class _Sections:
    lines: list[str]

    def all_of(self, found: list[YamlPart]) -> Iterator[str]:
        """Yields each document with the comments above it; under its name if there are several."""
        starts = [0, *(self._with_comments(part.line, before.line + 1) for before, part in pairwise(found))]
        ends = [*starts[1:], len(self.lines)]
        several = len(found) > 1
        for number, (part, start, end) in enumerate(zip(found, starts, ends, strict=False), 1):
            if several:
                yield heading(2, _label(part) or f"Document {number}")
            yield from self._part(part, (start, end), "", (3 if several else 2, ""))
        if not found:  # nothing but comments
            yield from self._fenced([(0, len(self.lines))])

    def _part(self, part: YamlPart, span: tuple[int, int], path: str, title: tuple[int, str]) -> Iterator[str]:
        """Yields a small part whole; of a large one each large item under its path, the small ones together before them.

        All headings are of one level, as each has the whole path.
        """
        if not self._divisible(part) or (self._size(span) <= PIECE and not _has_own_sections(part, path)):
            yield heading(*title)
            yield from self._fenced([span])
            return
        spans = self._spans(part, span)
        paths = [_path(path, part, at) for at in range(len(part.items))]
        large = [
            self._size(item_span) > PIECE or _is_own_section(item, item_path) or _has_own_sections(item, item_path)
            for item, item_span, item_path in zip(part.items, spans, paths, strict=True)
        ]
        small = [item_span for item_span, is_large in zip(spans, large, strict=True) if not is_large]
        if spans[0][0] > span[0]:
            small.insert(0, (span[0], spans[0][0]))
        if not (len(small) == 1 and _KEY_ALONE.match("".join(self.lines[slice(*small[0])]))):
            yield heading(*title)
            yield from self._fenced(small)
        for item, item_span, item_path, is_large in zip(part.items, spans, paths, large, strict=True):
            if is_large:
                yield from self._part(item, item_span, item_path, (title[0], _heading(item, item_path)))

    def _divisible(self, part: YamlPart) -> bool:
        """True if each item begins on a line of its own."""
        if part.inline or not part.items:
            return False
        return all(first < second for first, second in pairwise(part.lines))

    def _spans(self, part: YamlPart, span: tuple[int, int]) -> list[tuple[int, int]]:
        """Line ranges of the items, with the comments above each."""
        starts = [self._with_comments(part.lines[0], min(span[0] + 1, part.lines[0]))]
        for line in part.lines[1:]:
            starts.append(self._with_comments(line, starts[-1] + 1))
        return list(zip(starts, [*starts[1:], span[1]], strict=True))

    def _with_comments(self, line: int, least: int) -> int:
        while line > least and _COMMENT.match(self.lines[line - 1]):
            line -= 1
        return line

    def _size(self, span: tuple[int, int]) -> int:
        return sum(len(line) for line in self.lines[slice(*span)])

    def _fenced(self, spans: list[tuple[int, int]]) -> Iterator[str]:
        lines = [line for span in spans for line in self.lines[slice(*span)] if line.strip() not in ("---", "...")]
        widths = [len(line) - len(line.lstrip(" ")) for line in lines if line.strip()]
        margin = min(widths, default=0)
        return fenced((line[margin:] if line.strip() else "\n" for line in lines), "yaml")


def _path(path: str, part: YamlPart, at: int) -> str:
    """`spec.containers[checkout].env`: a sequence's item by its name, or else by its number."""
    if part.keys is None:
        return f"{path}[{_name(part.items[at]) or at}]"
    return f"{path}.{part.keys[at]}" if path else part.keys[at]


def _is_own_section(item: YamlPart, path: str) -> bool:
    """True for an alerting or recording rule of Prometheus, and an operation of OpenAPI, of any size."""
    if item.get("expr") and (item.get("alert") or item.get("record")):
        return True
    return path.startswith("paths./") and path.rpartition(".")[2] in _VERBS


def _has_own_sections(part: YamlPart, path: str) -> bool:
    """True if any such is near its top: groups, group, rules, rule, perhaps in a `spec`; paths, path, operation."""
    level = [(part, path)]
    for _ in range(5):
        level = [(one.items[at], _path(where, one, at)) for one, where in level for at in range(len(one.items))]
        if any(_is_own_section(item, where) for item, where in level):
            return True
    return False


def _heading(item: YamlPart, path: str) -> str:
    if item.get("expr"):
        return _name(item) or path
    if path.startswith("paths./") and path.rpartition(".")[2] in _VERBS:
        where, _, verb = path.removeprefix("paths.").rpartition(".")
        return f"{verb.upper()} {where}"
    return path


class TangledYamlError(Exception):
    """The YAML can't be outlined: the message gives the reason and the line."""


@dataclass(slots=True)
class YamlPart:
    """A scalar, with its `text`, or a collection. `line` is its first line, from 0.

    `keys` holds the keys of a mapping, and is None for a sequence. `inline` collections are in brackets.
    """

    line: int
    text: str = ""
    keys: list[str] | None = None
    items: list[YamlPart] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    """Lines where the items begin: in a mapping, their keys."""

    kind: str = "scalar"
    inline: bool = False

    def get(self, *path: str) -> YamlPart | None:
        """The part under a path of keys."""
        found: YamlPart | None = self
        for key in path:
            found = found.items[found.keys.index(key)] if found and found.keys and key in found.keys else None
        return found

    def texts(self, *path: str) -> str:
        """The scalar under a path of keys, or ""."""
        found = self.get(*path)
        return found.text if found is not None else ""


def documents(text: str) -> list[YamlPart]:
    """Parses the root parts of each document. Raises `TangledYamlError` for invalid YAML, and beyond the limits of
    depth and size."""
    try:
        return list(_documents(text))
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        where = f" in line {mark.line + 1}" if mark else ""
        raise TangledYamlError(f"not valid YAML{where} ({exc.problem or exc.context})") from exc
    except yaml.YAMLError as exc:
        raise TangledYamlError(f"not valid YAML ({' '.join(str(exc).split())})") from exc


def _documents(text: str) -> Iterator[YamlPart]:
    open_parts: list[YamlPart] = []
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


def _part(event: yaml.NodeEvent) -> YamlPart:
    line = event.start_mark.line if event.start_mark else 0
    if isinstance(event, yaml.MappingStartEvent):
        return YamlPart(line, kind="mapping", keys=[], inline=bool(event.flow_style))
    if isinstance(event, yaml.SequenceStartEvent):
        return YamlPart(line, kind="sequence", inline=bool(event.flow_style))
    if isinstance(event, yaml.ScalarEvent):
        null = event.value == "" or (event.implicit[0] and event.value in ("~", "null"))
        return YamlPart(line, event.value, kind="null" if null else "scalar")
    return YamlPart(line, f"*{event.anchor}", kind="alias")


def _put(part: YamlPart, open_parts: list[YamlPart]) -> None:
    """Adds a part to the collection around it. In a mapping keys and values alternate."""
    around = open_parts[-1]
    if around.keys is None:
        around.items.append(part)
        around.lines.append(part.line)
    elif len(around.keys) == len(around.items):
        around.keys.append(part.text if part.kind == "scalar" else "?")
        around.lines.append(part.line)
    else:
        around.items.append(part)
