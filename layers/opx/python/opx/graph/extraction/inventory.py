"""Extracts services from inventory files: their owners, dependencies, hosts, products, alerts and runbooks.

An inventory is a file of the category `operations/inventory`, in YAML, JSON or CSV; docs/graph.md has its format. It is
authoritative: its services are declared. Malformed entries are left out, each with a remark.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from opx.domain.documents import Remark, RemarkKind
from opx.domain.graph import EdgeStatement, Value
from opx.domain.record import replace
from opx.graph.extraction.material import Findings, Material
from opx.graph.extraction.own_node import (
    has_namespace,
    make_reference,
    name_of_product,
    named_node,
    product_key,
    product_of,
    read_reference,
    runbook_of,
)
from opx.graph.versions import MAX_VERSION
from opx.hygiene.secrets import mask

CATEGORY = "operations/inventory"
RULE = "inventory"
MAX_NAME = 200
MAX_UNKNOWN = 10
MAX_VALUES = 500
"""Values of one field of an entry."""

SINGLE = ("name", "service", "description", "tier", "criticality", "environment", "url", "repository", "language")
"""Fields of an entry that have one value, and refer to no other node."""
_FIELDS = {
    "owner": ("owner", "owners", "owned_by", "team"),
    "depends_on": ("depends_on", "dependencies"),
    "hosts": ("hosts", "host", "hosted_on"),
    "runs": ("runs", "products", "software"),
    "alerts": ("alerts", "alert"),
    "runbooks": ("runbooks", "runbook"),
    "aliases": ("aliases", "alias"),
}
_KNOWN = frozenset((*SINGLE, *(name for names in _FIELDS.values() for name in names)))

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 50


def inventory_entries(material: Material, findings: Findings) -> None:
    """A document rule: all services of an inventory, with a remark for each problem."""
    if material.document.category != CATEGORY:
        return
    try:
        listed = listed_services(material)
    except UnreadableInventoryError as exc:
        _remark(findings, f"the inventory can't be read: {exc}")
        return
    if not listed:
        _remark(findings, "the inventory lists no services: it needs a list `services` whose entries have a `name`")
    unknown: dict[str, str] = {}
    for one in listed:
        _Entry(one.where, findings).read(one.name, one.entry)
        fields = map(str, one.entry) if isinstance(one.entry, Mapping) else ()
        unknown.update({field: one.where for field in fields if field not in _KNOWN and field not in unknown})
    for field, where in list(unknown.items())[:MAX_UNKNOWN]:
        _remark(findings, f"inventory, {where}: the field {field[:60]!r} is unknown")


def _remark(findings: Findings, text: str) -> None:
    findings.remarks.append(Remark(RemarkKind.MALFORMED_RELATION, text))


# -- entries


class _Entry:
    """Reads the entry of one service."""

    def __init__(self, where: str, findings: Findings) -> None:
        self._where = where
        self._findings = findings
        self._key = ""

    def read(self, name: Any, entry: Any) -> None:
        text = self._text(name)
        self._key = read_reference(text, "service") if text else ""
        if not self._key:
            self._reject("has no `name`, so it is left out")
            return
        self._where = f"service {text[:60]}"
        if entry is None:
            entry = {}
        if not isinstance(entry, Mapping):
            self._reject(f"is {_kind(entry)} instead of a mapping of fields, so only its name counts")
            entry = {}
        about = {
            key: self._text(entry[key])[:500] for key in SINGLE[2:] if isinstance(entry.get(key), str | int | float)
        }
        statement = named_node(
            text.partition(":")[2].strip() if has_namespace(text) else text, self._key, declared=True
        )
        self._findings.add(replace(statement, properties={**statement.properties, **about}))
        for field in _FIELDS:
            for value in self._values(entry, field):
                self._state(field, value)

    def _state(self, field: str, value: Any) -> None:
        if field == "runs":
            self._runs(value)
            return
        text = self._text(value)
        if not text:
            self._reject(f"has {_kind(value)} in `{field}`, where names of up to {MAX_NAME} characters are expected")
        elif field == "aliases":
            alias = read_reference(text, "service") if has_namespace(text) else make_reference("service", text)
            self._findings.aliases.append((alias, self._key))
        else:
            self._edge(field, text)

    def _edge(self, field: str, text: str) -> None:
        if field == "runbooks":
            self._add(runbook_of(text), "documents", self._key)
        elif field == "alerts":
            self._add(self._thing(text, "alert"), "fires_on", self._key)
        elif field == "owner":
            self._add(self._key, "owned_by", self._thing(text, "email" if "@" in text else "team"))
        elif field == "hosts":
            self._add(self._key, "hosted_on", self._thing(text, "host"))
        else:
            self._add(self._key, "depends_on", self._thing(text, "service"))

    def _runs(self, value: Any) -> None:
        """A product with its version: `nginx 1.24.0`, or a mapping."""
        if isinstance(value, Mapping):
            names = [self._text(value.get(key)) for key in ("vendor", "product", "name")]
            name = "/".join(part for part in (names[0], names[1] or names[2]) if part) if names[1] or names[2] else ""
            key, version = product_key(name) if name else "", self._text(value.get("version"))
        else:
            name = self._text(value)
            key, version = product_of(name) if name else ("", "")
        if not key:
            self._reject(
                "has a value in `runs` that is neither a string such as `nginx 1.24.0` nor a mapping of product and version"
            )
            return
        self._findings.add(named_node(name_of_product(name), key))
        self._add(self._key, "runs", key, **({"version": version[:MAX_VERSION]} if version else {}))

    def _add(self, source: str, edge: str, target: str, **properties: Value) -> None:
        if not source or not target:
            self._reject(f"has an invalid name in `{edge}`")
        elif source != target:
            self._findings.add(EdgeStatement(source, edge, target, rule=RULE, properties=properties))

    def _thing(self, text: str, namespace: str) -> str:
        key = read_reference(text, namespace)
        if key and not has_namespace(text):
            self._findings.add(named_node(text, key))
        return key

    def _values(self, entry: Mapping[Any, Any], field: str) -> Iterable[Any]:
        for name in _FIELDS[field]:
            value = entry.get(name)
            if value is None:
                continue
            several = value if isinstance(value, list) else [value]
            if len(several) > MAX_VALUES:
                self._reject(f"has {len(several):,} values in `{name}`, of which the first {MAX_VALUES} count")
            yield from several[:MAX_VALUES]

    def _text(self, value: Any) -> str:
        """A string or number as one line without secrets; "" for other values, and for those too long for a name."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return ""
        line = " ".join(mask(str(value))[0].split())
        return line if len(line) <= MAX_NAME else ""

    def _reject(self, why: str) -> None:
        _remark(self._findings, f"inventory, {self._where}: it {why}")


def _kind(value: Any) -> str:
    names = {dict: "a mapping", list: "a list", bool: "true or false", type(None): "nothing", str: "a string"}
    return names.get(type(value), "a number or a date")


class UnreadableInventoryError(ValueError):
    """The file as a whole can't be read."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An entry as it is in the file: its position, its name and its fields."""

    where: str
    name: Any
    entry: Any


def listed_services(material: Material) -> list[Listed]:
    """All entries, in their order. Raises `UnreadableInventoryError`, `ObjectNotFoundError` and `StoreUnavailableError`."""
    return list(_services(_loaded(material)))


def _loaded(material: Material) -> Any:
    suffix = PurePosixPath(material.document.key.source).suffix.lower()
    if suffix not in (".yaml", ".yml", ".json", ".csv", ".tsv"):
        raise UnreadableInventoryError(f"a file {suffix or 'without an extension'} is neither YAML, JSON nor CSV")
    with material.open() as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UnreadableInventoryError(f"it has more than {MAX_BYTES // 1024 // 1024} MiB; split it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise UnreadableInventoryError(f"it is not UTF-8: {exc.reason} at byte {exc.start}") from exc
    if suffix in (".csv", ".tsv"):
        return _rows(text, "\t" if suffix == ".tsv" else ",")
    return _json(text) if suffix == ".json" else _yaml(text)


def _rows(text: str, delimiter: str) -> dict[str, Any]:
    """One service per row; several values of a field are separated by `;`."""
    try:
        rows = list(csv.DictReader(text.splitlines(), delimiter=delimiter, strict=True))
    except csv.Error as exc:
        raise UnreadableInventoryError(f"it is not valid CSV: {exc}") from exc
    return {"services": [_row(row) for row in rows]}


def _row(row: Mapping[Any, Any]) -> dict[str, Any]:
    cells = {str(name).strip().lower(): cell.strip() for name, cell in row.items() if name and isinstance(cell, str)}
    return {
        name: cell if name in SINGLE else [part.strip() for part in cell.split(";") if part.strip()]
        for name, cell in cells.items()
        if cell
    }


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise UnreadableInventoryError(f"it is not valid JSON: {str(exc)[:200]}") from exc


def _yaml(text: str) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        depth = 0
        for event in yaml.parse(text, loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent):  # a few aliases can expand to billions of values
                raise UnreadableInventoryError(
                    "it has YAML aliases (*name), which are not supported; write the values out"
                )
            if depth > MAX_DEPTH:
                raise UnreadableInventoryError(f"it is nested deeper than {MAX_DEPTH} levels; an inventory needs four")
        return yaml.load(text, loader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError) as exc:
        if isinstance(exc, UnreadableInventoryError):
            raise
        raise UnreadableInventoryError(f"it is not valid YAML: {' '.join(str(exc).split())[:200]}") from exc


def _services(loaded: Any) -> Iterator[Listed]:
    listed = loaded.get("services", loaded) if isinstance(loaded, Mapping) else loaded
    if listed is loaded and isinstance(listed, Mapping) and "name" in listed:
        listed = [listed]
    if isinstance(listed, Mapping):
        yield from (Listed(f"service {name!s:.60}", name, entry) for name, entry in listed.items())
        return
    if not isinstance(listed, list):
        raise UnreadableInventoryError("`services` is neither a list of entries nor a mapping of names to entries")
    for number, entry in enumerate(listed, 1):
        if isinstance(entry, Mapping):
            yield Listed(f"service {number}", entry.get("name") or entry.get("service"), entry)
        else:
            yield Listed(f"service {number}", entry, {})
