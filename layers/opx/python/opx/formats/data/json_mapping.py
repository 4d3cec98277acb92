"""Reads JSON records through the mapping of their category: one object per file, or one per line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from jsonpath_ng.exceptions import JSONPathError
from jsonpath_ng.ext.parser import parse as parse_path

from opx.domain.documents import Remark, RemarkKind
from opx.domain.ids import normalise
from opx.domain.knowledge import JSON_MAPPING_FIELDS
from opx.errors import InvalidInputError, KnowledgeConfigError, UnparsableDocumentError
from opx.formats.source import ParsedSource, Source, cut_lines, filled_lines, read_text, well_formed
from opx.formats.writing import fenced, heading, plain_text

MAX_DEPTH = 200
_LISTS = ("tags", "services")
_FACTS = frozenset((
    "id", "entity", "incident", "incidents", "incident_id", "change", "changes", "change_id", "caused_by", "resolved_by",
    "fixes", "affects", "alert", "alerts", "alertname", "host", "hosts", "owner", "owners", "team", "depends_on",
    "dependencies", "runbook", "runbooks", "service", "products", "runs", "aliases", "supersedes", "relationships",
))  # fmt: skip
"""Fields of a record that state relations, like the front matter fields of the same names."""
_MAX_INDENT = 12
"""Spaces; deeper levels aren't indented further, or small leaves far down would take hundreds of times their size."""

SPLIT = "put each into a file of its own, or one a line into a .jsonl file"
_LEVELS = 2
"""Depth of members that are searched: Brave's results are in `web.results`."""

_MEMBERS = 100
_ITEMS = 10
_SHOWN = 3
_FIRST = "[0]"

MAX_RECORD = 1024 * 1024
"""Characters of one record."""

_NAMES = ("title", "name", "id", "key")
_CONTENTS = ("description", "summary", "message", "body")
"""Fields of the content of a record that has none where its category's mapping looks, the preferred first."""
_MAX_NAME = 120


def parse_json(source: Source) -> ParsedSource:
    """Reads title, text and metadata of one JSON object at the paths of the category's mapping.

    The text is the content field; several fields become a paragraph each under its name. Raises `KnowledgeConfigError` if
    the mapping itself is wrong.
    """
    if not source.category.json_mapping:
        path = source.category.path
        raise UnparsableDocumentError(
            f"{source.name}: category {path} has no `json` paths in knowledge.yaml; add them, or convert the file"
        )
    return parse_record(_loaded(read_text(source), source.name), source)


def parse_record(record: dict[str, Any], source: Source) -> ParsedSource:
    """Like `parse_json`, for an object already decoded, nested no deeper than `MAX_DEPTH`."""
    category, name = source.category, source.name
    paths = {field: _compiled(field, source) for field in JSON_MAPPING_FIELDS if field in category.json_mapping}
    titles = paths.pop("title")
    refuse_several(titles, record, name)
    refuse_withdrawn(record, name)
    title = _first(titles, record)
    if isinstance(title, bool) or not isinstance(title, str | int | float):
        raise UnparsableDocumentError(f"{name}: no title at {shown(titles)}; {advice(titles, record)}")
    known = (compile_paths(f"$.{field}") for field in _CONTENTS)
    text = next(filter(str.strip, (_content(one, record) for one in (paths.pop("content"), *known))), "")
    if not text:
        looked = f"{category.json_mapping['content']}, nor at {', '.join(_CONTENTS)}"
        raise UnparsableDocumentError(f"{name}: no content at {looked}; add it to the record")
    metadata = {
        field: _all(found, record) if field in _LISTS else _first(found, record) for field, found in paths.items()
    }
    return ParsedSource(
        title=normalise(well_formed(str(title))).strip().splitlines()[0].rstrip(),
        metadata={**_facts(record), **{field: value for field, value in metadata.items() if value not in (None, [])}},
        lines=cut_lines([text], name),
    )


def _facts(record: dict[str, Any]) -> dict[str, Any]:
    """The facts that are strings, numbers, or lists of them."""
    found = {name: record[name] for name in sorted(_FACTS & record.keys())}
    return {
        name: value
        for name, value in found.items()
        if value and all(isinstance(one, str | int) for one in (value if isinstance(value, list) else [value]))
    }


def _loaded(text: str, name: str) -> dict[str, Any]:
    try:
        record = json.loads(text)
    except json.JSONDecodeError as exc:
        where = f"line {exc.lineno}, column {exc.colno}"
        raise UnparsableDocumentError(f"{name}: not valid JSON at {where}: {exc.msg}; correct it") from exc
    except ValueError as exc:  # a number of thousands of digits
        raise UnparsableDocumentError(f"{name}: not usable JSON: {exc}; write the number as a string") from exc
    except RecursionError as exc:
        raise UnparsableDocumentError(f"{name}: JSON nested deeper than {MAX_DEPTH} levels; flatten it") from exc
    if isinstance(record, list):
        raise UnparsableDocumentError(f"{name}: an array of records at the top; {SPLIT}")
    if not isinstance(record, dict):
        raise UnparsableDocumentError(f"{name}: a JSON object is needed at the top, not {type(record).__name__}")
    if is_deep(record):
        raise UnparsableDocumentError(f"{name}: JSON nested deeper than {MAX_DEPTH} levels; flatten it")
    return record


def is_deep(record: Any) -> bool:
    """True if the record is nested deeper than `MAX_DEPTH` levels."""
    level: list[Any] = [record]
    for _ in range(MAX_DEPTH):
        collections = [value for value in level if isinstance(value, dict | list)]
        level = [item for value in collections for item in (value.values() if isinstance(value, dict) else value)]
        if not level:
            return False
    return True


def _compiled(field: str, source: Source) -> tuple[FieldPath, ...]:
    try:
        return compile_paths(source.category.json_mapping[field])
    except InvalidInputError as exc:
        raise KnowledgeConfigError(f"knowledge.yaml: {source.category.path}.json.{field}: {exc}") from exc


def _first(paths: tuple[FieldPath, ...], record: dict[str, Any]) -> Any:
    for path in paths:
        for value in path.values(record):
            return value
    return None


def _all(paths: tuple[FieldPath, ...], record: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    for path in paths:
        for value in path.values(record):
            found.extend(value if isinstance(value, list) else [value])
    return found


def _content(paths: tuple[FieldPath, ...], record: dict[str, Any]) -> str:
    found = [(path.label, path.values(record)) for path in paths]
    parts = [(label, _as_text(values)) for label, values in found if values]
    if len(paths) == 1:
        return "".join(f"{text}\n" for _, text in parts)
    return "".join(f"## {_heading(label)}\n\n{text}\n\n" for label, text in parts)[:-1]


def _heading(label: str) -> str:
    """A field's name as a heading: `failure_description` -> `Failure description`. One with other capitals stays as it is."""
    return label.replace("_", " ").capitalize() if label.islower() else label


def _as_text(values: list[Any]) -> str:
    """Renders strings as distinct paragraphs; anything else as bullets."""
    if all(isinstance(value, str) for value in values):
        text = "\n\n".join(dict.fromkeys(values))
    else:
        text = rendered(values[0] if len(values) == 1 else values)
    return normalise(well_formed(text)).strip("\n")


def rendered(value: Any, indent: str = "") -> str:
    """Renders a value as Markdown: collections as nested bullets, `- key: value` for objects."""
    if isinstance(value, dict):
        return "\n".join(_bullet(f"{key}:", item, indent) for key, item in value.items())
    if isinstance(value, list):
        return "\n".join(_bullet("", item, indent) for item in value)
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return str(value)


def _bullet(label: str, value: Any, indent: str) -> str:
    if isinstance(value, dict | list) and value:
        deeper = indent + "  " if len(indent) < _MAX_INDENT else indent
        return f"{indent}- {label}".rstrip() + "\n" + rendered(value, deeper)
    text = rendered(value).strip().replace("\n", f"\n{indent}  ")
    return f"{indent}- " + f"{label} {text}".strip()


def shown(paths: Sequence[FieldPath]) -> str:
    """Paths for a message: plain paths if there are any, without those that build a string."""
    plain = [path.text for path in paths if not any(sign in path.text for sign in ("`", " + "))]
    return SEPARATOR.join(plain or [path.text for path in paths])


def refuse_several(titles: Sequence[FieldPath], record: dict[str, Any], name: str) -> None:
    """Raises `UnparsableDocumentError` for a list of which only the first object would be read, as its path says: a
    STIX bundle may hold one object or 25,000."""
    for path in titles:
        listed, first, _ = path.text.partition(_FIRST)
        count = len(compile_paths(f"{listed}[*]")[0].values(record)) if first else 0
        if count > 1:
            raise UnparsableDocumentError(
                f"{name}: {count:,} objects in one file, at {listed}; {SPLIT}"
                + (
                    "; ATT&CK can be pulled: opx source add attack --kind attack --category security/mitre"
                    if _is_bundle(record)
                    else ""
                )
            )
        if path.values(record):
            return


def refuse_withdrawn(record: dict[str, Any], name: str) -> None:
    """Raises `UnparsableDocumentError` for an object of STIX that its authors revoked or deprecated."""
    objects = record.get("objects") if _is_bundle(record) else [record]
    for found in objects if isinstance(objects, list) else ():
        if not (isinstance(found, dict) and str(found.get("id")).startswith(f"{found.get('type')}--")):
            continue
        if found.get("revoked") is True or found.get("x_mitre_deprecated") is True:
            state = "revoked" if found.get("revoked") is True else "deprecated"
            raise UnparsableDocumentError(f"{name}: its authors have {state} {found['id']}; leave it out")


def _is_bundle(record: dict[str, Any]) -> bool:
    return record.get("type") == "bundle"


def advice(titles: Sequence[FieldPath], record: dict[str, Any]) -> str:
    """The remedy for a record without a title: often the records are in one of its members, as in the reply of an API."""
    level: list[tuple[str, Any]] = list(islice(record.items(), _MEMBERS))
    for _ in range(_LEVELS):
        lists = [name for name, value in level if isinstance(value, list) and _titled(titles, value[:_ITEMS])]
        if lists:
            return f"the records seem to be in {' and '.join(f'`{name}`' for name in lists[:_SHOWN])}: {SPLIT}"
        single = next((name for name, value in level if _titled(titles, [value])), None)
        if single is not None:
            return f"the record seems to be in `{single}`: put that into a file of its own"
        below = ((name, value) for name, value in level if isinstance(value, dict))
        level = [(f"{name}.{each}", inner) for name, value in below for each, inner in islice(value.items(), _MEMBERS)]
    return "add it to the record, or choose a category whose `json` paths fit"


def _titled(titles: Sequence[FieldPath], values: Iterable[Any]) -> bool:
    return any(isinstance(value, dict) and any(path.values(value) for path in titles) for value in values)


def parse_json_lines(source: Source) -> ParsedSource:
    """Yields each record as a section under its name, lazily: by the category's mapping where it fits, else key by key.

    A line that isn't a record is kept unchanged and remarked on.
    """
    remarks: list[Remark] = []
    lines = filled_lines(source)
    return ParsedSource(None, {}, cut_lines(_sections(lines, source, remarks), source.name), remarks)


def _sections(lines: Iterable[str], source: Source, remarks: list[Remark]) -> Iterator[str]:
    odd = first_odd = 0
    for number, line in enumerate(_records(lines, source.name), 1):
        record = _record(line)
        if record is not None:
            yield _section(record, source)
        elif line.strip():
            odd, first_odd = odd + 1, first_odd or number
            yield from fenced([line])
    if odd:
        text = f"{source.name}: {odd} lines are no JSON objects, the first is line {first_odd}; they are kept as text"
        remarks.append(Remark(RemarkKind.IRREGULAR, text))


def _records(pieces: Iterable[str], name: str) -> Iterator[str]:
    held: list[str] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size > MAX_RECORD:
            raise UnparsableDocumentError(f"{name}: a record of more than {MAX_RECORD:,} characters; split it")
        if piece.endswith("\n"):
            yield "".join(held)
            held, size = [], 0
    yield "".join(held)


def _record(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and record and not is_deep(record) else None


def _section(record: dict[str, Any], source: Source) -> str:
    if source.category.json_mapping:
        try:
            found = parse_record(record, source)
        except UnparsableDocumentError:
            pass  # a record of another kind
        else:
            return f"{heading(2, found.title or '')}{''.join(found.lines).strip()}\n\n"
    text = plain_text(normalise(well_formed(rendered(record)))).strip("\n")
    return f"{heading(2, normalise(well_formed(_name(record))))}{text}\n\n"


def _name(record: dict[str, Any]) -> str:
    """The record's own name, if that is short; else "", and it joins the section before."""
    names = (record.get(key) for key in _NAMES)
    return next((name for name in names if isinstance(name, str) and 0 < len(name.strip()) <= _MAX_NAME), "")


# -- JSONPath expressions


SEPARATOR = " | "
INSTEAD = " || "
"""Separates alternative paths, of which the first with a value counts."""

_NAME = re.compile(r"\.\s*([A-Za-z_][\w-]*)")
_BRACKETS = re.compile(r"\[[^\]]*\]")


@dataclass(frozen=True, slots=True)
class FieldPath:
    """One expression, or alternatives of which the first with a value counts. `label` is the last field name of the
    first path."""

    text: str
    label: str
    compiled: tuple[Any, ...]

    def values(self, record: object) -> list[Any]:
        """All values found, without nulls, empty strings and empty collections."""
        for each in self.compiled:
            if found := [value for value in _found(each, record) if not _is_empty(value)]:
                return found
        return []


@lru_cache(maxsize=256)
def compile_paths(expressions: str) -> tuple[FieldPath, ...]:
    """Compiles the paths of a mapping entry, separated by ` | `; ` || ` separates a path from its fallback.

    Raises `InvalidInputError` for an invalid JSONPath."""
    paths = []
    for text in expressions.split(SEPARATOR):
        try:
            compiled = tuple(map(parse_path, text.split(INSTEAD)))
        except JSONPathError as exc:
            problem = " ".join(str(exc).split())
            raise InvalidInputError(
                f"{text!r} is not a JSONPath ({problem}); allowed: such as $.items[*].name"
            ) from exc
        paths.append(FieldPath(text, _label(text.partition(INSTEAD)[0]), compiled))
    return tuple(paths)


def _label(text: str) -> str:
    """The last name of the path; the parent's if that is a mere `value` or `name`."""
    names: list[str] = _NAME.findall(_BRACKETS.sub("", text)) or [text]
    return names[-2] if names[-1] in ("value", "name") and len(names) > 1 else names[-1]


def _found(compiled: Any, record: object) -> list[Any]:
    """Values at a path; none if the path applies a string function, such as `sub`, to something else."""
    try:
        return [match.value for match in compiled.find(record)]
    except TypeError:
        return []


def _is_empty(value: object) -> bool:
    return value is None or value in ([], {}) or (isinstance(value, str) and not value.strip())
