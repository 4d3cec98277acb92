"""JSON records, read through the mapping of their category."""

from __future__ import annotations

import json
from typing import Any

from opx.domain.ids import normalise
from opx.domain.knowledge import JSON_MAPPING_FIELDS
from opx.errors import InvalidInputError, KnowledgeConfigError, UnparsableDocumentError
from opx.ingestion.parsing.decoding import cut_lines, read_text, well_formed
from opx.ingestion.parsing.json_hints import SPLIT, advice, refuse_several, refuse_withdrawn, shown
from opx.ingestion.parsing.json_paths import FieldPath, compile_paths
from opx.ingestion.parsing.source import ParsedSource, Source

MAX_DEPTH = 200
_LISTS = ("tags", "services")
_FACTS = frozenset((
    "id", "entity", "incident", "incidents", "incident_id", "change", "changes", "change_id", "caused_by", "resolved_by",
    "fixes", "affects", "alert", "alerts", "alertname", "host", "hosts", "owner", "owners", "team", "depends_on",
    "dependencies", "runbook", "runbooks", "service", "products", "runs", "aliases", "supersedes", "relationships",
))  # fmt: skip
"""Fields of a record that say how things are related, as those of these names do in the front matter of a page."""
_MAX_INDENT = 12
"""Spaces; deeper levels aren't indented further, or small leaves far down would take hundreds of times their size."""


def parse_json(source: Source) -> ParsedSource:
    """Title, text and metadata of one JSON object, from where the category's mapping says they are.

    The text is the content field; of several each is a paragraph under its name. Raises `KnowledgeConfigError` if the
    mapping itself is wrong.
    """
    if not source.category.json_mapping:
        path = source.category.path
        raise UnparsableDocumentError(
            f"{source.name}: category {path} has no `json` paths in knowledge.yaml; add them, or convert the file"
        )
    return parse_record(_loaded(read_text(source), source.name), source)


def parse_record(record: dict[str, Any], source: Source) -> ParsedSource:
    """As `parse_json`, of an object that is read already, nested no deeper than `MAX_DEPTH`."""
    category, name = source.category, source.name
    paths = {field: _compiled(field, source) for field in JSON_MAPPING_FIELDS if field in category.json_mapping}
    titles = paths.pop("title")
    refuse_several(titles, record, name)
    refuse_withdrawn(record, name)
    title = _first(titles, record)
    if isinstance(title, bool) or not isinstance(title, str | int | float):
        raise UnparsableDocumentError(f"{name}: no title at {shown(titles)}; {advice(titles, record)}")
    text = _content(paths.pop("content"), record)
    if not text.strip():
        raise UnparsableDocumentError(f"{name}: no content at {category.json_mapping['content']}; add it to the record")
    metadata = {
        field: _all(found, record) if field in _LISTS else _first(found, record) for field, found in paths.items()
    }
    return ParsedSource(
        title=normalise(well_formed(str(title))).strip().splitlines()[0].rstrip(),
        metadata={**_facts(record), **{field: value for field, value in metadata.items() if value not in (None, [])}},
        lines=cut_lines([text], name),
    )


def _facts(record: dict[str, Any]) -> dict[str, Any]:
    """Those of the facts that are texts, numbers, or lists of them."""
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
        raise UnparsableDocumentError(f"{name}: not usable JSON: {exc}; write the number as a text") from exc
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
    """Whether it is nested deeper than `MAX_DEPTH` levels."""
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
    return "".join(f"## {label}\n\n{text}\n\n" for label, text in parts)[:-1]


def _as_text(values: list[Any]) -> str:
    """Texts as paragraphs, each once; anything else as bullets."""
    if all(isinstance(value, str) for value in values):
        text = "\n\n".join(dict.fromkeys(values))
    else:
        text = rendered(values[0] if len(values) == 1 else values)
    return normalise(well_formed(text)).strip("\n")


def rendered(value: Any, indent: str = "") -> str:
    """A value as Markdown: collections as nested bullets, `- key: value` for objects."""
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
