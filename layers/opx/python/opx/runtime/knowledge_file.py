"""Reads `knowledge.yaml`: tiers, categories with trust, retention, schedule and embedded fields, and further sections."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from enum import StrEnum
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from opx.domain.knowledge import (
    FORMATS,
    JSON_MAPPING_FIELDS,
    JSON_TYPES,
    TRUST_RANGE,
    Ageing,
    Category,
    KnowledgeModel,
    Speech,
    Tier,
    default_speech,
    retention_days,
)
from opx.domain.scopes import Identity, Scope
from opx.errors import InvalidInputError, KnowledgeConfigError, distribution_of
from opx.ports import Clock
from opx.settings import Settings

if TYPE_CHECKING:
    import yaml

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)


PathCheck = Callable[[str], object]
"""Compiles a JSONPath expression. Raises `InvalidInputError` for a malformed one."""

# -- YAML as nodes with their lines. The parser is imported when it is needed


class InvalidYamlError(Exception):
    """YAML that is invalid at a `line`, from 1."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


@lru_cache(maxsize=2)
def composed(data: bytes) -> yaml.Node | None:
    """The top node, cached as a file is read once per section; None for an empty file. Nodes of an alias are the same. Raises
    `InvalidYamlError`."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser is ten times as fast, but not in every build
    try:
        top: yaml.Node | None = yaml.compose(data, Loader=loader)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        raise InvalidYamlError(mark.line + 1 if mark else 1, str(exc.problem or exc.context)) from exc
    except yaml.YAMLError as exc:
        raise InvalidYamlError(1, " ".join(str(exc).split())) from exc
    if top is not None:
        _refuse_cycles(top, {})
    return top


def as_plain(node: yaml.Node) -> Any:
    """The value as strings, numbers, booleans, lists and mappings. Raises `InvalidYamlError`."""
    import yaml

    try:
        return yaml.SafeLoader("").construct_document(deepcopy(node))  # the constructor merges `<<` in place
    except yaml.YAMLError as exc:
        raise InvalidYamlError(node.start_mark.line + 1, " ".join(str(exc).split())) from exc


def _refuse_cycles(node: yaml.Node, is_done: dict[int, bool]) -> None:
    if not isinstance(node.value, list):
        return
    if id(node) in is_done:
        if not is_done[id(node)]:
            raise InvalidYamlError(node.start_mark.line + 1, "an anchor contains itself")
        return
    is_done[id(node)] = False
    for entry in node.value:
        for inner in entry if isinstance(entry, tuple) else (entry,):
            _refuse_cycles(inner, is_done)
    is_done[id(node)] = True


# -- YAML values with line numbers, so that every error message can name the line

_TEXT = "tag:yaml.org,2002:str"
_NUMBERS = ("tag:yaml.org,2002:float", "tag:yaml.org,2002:int")


class Marked(Struct, frozen=True):
    """A value of a YAML file at `path` from the top (`tiers.internal`).

    Reading it as another type raises `KnowledgeConfigError` with file and line.
    """

    node: Any
    """A node of PyYAML."""
    file: str
    path: str = ""

    def error(self, problem: str) -> KnowledgeConfigError:
        return KnowledgeConfigError(f"{self.file}:{self.node.start_mark.line + 1}: {problem}")

    def entries(self) -> dict[str, Marked]:
        """The values of a mapping by key, in the order of the file. Rejects duplicate keys."""
        if self.node.id != "mapping":
            raise self.error(f"{self.path or 'the file'} must be a mapping (key: value)")
        found: dict[str, Marked] = {}
        for key_node, value_node in self.node.value:
            key = Marked(key_node, self.file, "key").text()
            if key in found:
                raise Marked(key_node, self.file).error(f"duplicate key {key!r}; give it once")
            found[key] = Marked(value_node, self.file, f"{self.path}.{key}".lstrip("."))
        return found

    def fields(self, *, required: Sequence[str] = (), optional: Sequence[str] = ()) -> dict[str, Marked]:
        """Like `entries`; rejects keys that are not listed, and a mapping without a required one."""
        found = self.entries()
        allowed = (*required, *optional)
        for key, value in found.items():
            if key not in allowed:
                raise value.error(f"unknown key {key!r}; allowed: {', '.join(allowed)}")
        for key in required:
            if key not in found:
                raise self.error(f"{self.path or 'the file'} needs the key {key!r}")
        return found

    @property
    def is_scalar(self) -> bool:
        return bool(self.node.id == "scalar")

    def text(self) -> str:
        """A non-empty string, stripped."""
        if self.is_scalar and self.node.tag == _TEXT and self.node.value.strip():
            return str(self.node.value).strip()
        raise self.error(f"{self.path} must be a string; put it in quotes if it looks like another type")

    def texts(self) -> tuple[str, ...]:
        """A list of strings, or a single one. Raises `KnowledgeConfigError` for an empty list."""
        if not isinstance(self.plain(), list):
            return (self.text(),)
        if found := tuple(item.text() for item in self.items()):
            return found
        raise self.error(f"{self.path} is empty; leave it out, or name something")

    def number(self) -> float:
        if self.is_scalar and self.node.tag in _NUMBERS:
            try:
                return float(self.node.value)
            except ValueError:
                pass  # notations of YAML only, such as .inf
        raise self.error(f"{self.path} must be a number")

    def flag(self) -> bool:
        if self.node.value in ("true", "false"):
            return bool(self.node.value == "true")
        raise self.error(f"{self.path} must be true or false")

    def plain(self) -> Any:
        """The value as plain Python types: strings, numbers, booleans, lists and mappings."""
        try:
            return as_plain(self.node)
        except InvalidYamlError as exc:
            raise self.error(f"{self.path} can't be read: {exc}") from exc

    def items(self) -> list[Marked]:
        """The values of a list."""
        if self.node.id != "sequence":
            raise self.error(f"{self.path} must be a list, such as [a, b]")
        return [Marked(node, self.file, f"{self.path}[{at}]") for at, node in enumerate(self.node.value)]


def read_marked(path: Path, file: str) -> Marked:
    """The top value of a YAML file, named `file` in errors. Raises `KnowledgeConfigError` for invalid YAML."""
    try:
        node = composed(path.read_bytes())
    except OSError as exc:
        raise KnowledgeConfigError(f"{file}: can't be read: {exc.strerror or exc}") from exc
    except InvalidYamlError as exc:
        raise KnowledgeConfigError(f"{file}:{exc.line}: not valid YAML: {exc}") from exc
    if node is None:
        raise KnowledgeConfigError(f"{file}:1: the file is empty")
    return Marked(node, file)


# -- the file

FILE_NAME = "knowledge.yaml"
SECTIONS = (
    "sources",
    "webhooks",
    "streams",
    "evidence",
    "internet",
    "retrieval",
    "agents",
    "telemetry",
    "owners",
    "retention",
    "baselines",
    "learning",
    "procedures",
    "channels",
    "tokens",
)
"""Sections that are read on demand, through `read_section`."""

_PACKAGE = Path(__file__).resolve().parents[1]
_CATEGORY_PATH = re.compile(r"[a-z0-9_]+(/[a-z0-9_]+)*\Z")
_REQUIRED = ("tier", "description", "retention", "schema", "embed")
_CLAIMS = ("formats", "names", "connectors")
"""Lists of what a category takes if nothing else categorises it."""

_OPTIONAL = ("trust", "schedule", "folders", "json", "graph", "ages_by", "speaks", *_CLAIMS)


def load_knowledge(path: Path | None = None, *, check_json_path: PathCheck | None = None) -> KnowledgeModel:
    """The knowledge model of a file; None reads the repository's `corpus/knowledge.yaml`, or the packaged copy.

    Raises `KnowledgeConfigError`, whose message starts with file and line. JSONPath expressions are only parsed with
    `check_json_path`, and schedules only where cronsim is installed: the search path needs neither, and its
    functions load this file at every cold start.
    """
    file, name = (path, str(path)) if path else _default_file()
    top = read_marked(file, name).fields(required=("default_category", "tiers", "categories"), optional=SECTIONS)
    default_trust = _default_trust(top["tiers"])
    categories: dict[str, Category] = {}
    for category_path, entry in top["categories"].entries().items():
        categories[category_path] = _category(category_path, entry, default_trust, check_json_path)
    _refuse_shared_folders(top["categories"], categories)
    _refuse_shared_claims(top["categories"], categories)
    default = top["default_category"].text()
    if default not in categories:
        allowed = ", ".join(sorted(categories))
        raise top["default_category"].error(f"unknown category {default!r}; allowed: {allowed}")
    return KnowledgeModel(categories, default)


def read_section(name: str, path: Path | None = None) -> Marked | None:
    """One of `SECTIONS`; None if the file lacks it. Raises `KnowledgeConfigError`."""
    file, name_of_file = (path, str(path)) if path else _default_file()
    return read_marked(file, name_of_file).entries().get(name)


def unread_sections(path: Path | None = None) -> dict[str, str]:
    """Sections with contents that only a distribution reads which isn't installed, with its name. Raises
    `KnowledgeConfigError`."""
    from opx import plugins

    readers = {name: distribution for name in SECTIONS if (distribution := distribution_of("section", name))}
    missing = {name: reader for name, reader in readers.items() if not plugins.is_installed(reader)}
    return {name: reader for name, reader in missing.items() if _has_contents(read_section(name, path))}


def _has_contents(section: Marked | None) -> bool:
    def any_in(value: Any) -> bool:
        return any(map(any_in, value.values())) if isinstance(value, Mapping) else value not in (None, [])

    return section is not None and any_in(section.plain())


def _default_file() -> tuple[Path, str]:
    """The file of the checkout that contains this package, or else the packaged copy."""
    found = corpus_path(FILE_NAME)
    if found is None:
        raise KnowledgeConfigError(
            f"{FILE_NAME}: found neither in the package nor in a checkout; set OPX_KNOWLEDGE_FILE to its path"
        )
    return found, f"corpus/{FILE_NAME}" if found.parent.name == "corpus" else f"opx/data/{FILE_NAME}"


def corpus_path(name: str) -> Path | None:
    """A file or folder of `corpus` in the checkout that contains this package, or else its packaged copy; None if neither is
    there."""
    above = _PACKAGE.parents
    in_checkout = [above[3] / "corpus" / name] if len(above) > 3 else []
    return next((path for path in (*in_checkout, _PACKAGE / "data" / name) if path.exists()), None)


def _default_trust(tiers: Marked) -> dict[Tier, float]:
    trust = {}
    for name, entry in tiers.entries().items():
        tier = _tier(name, entry, tuple(Tier))
        trust[tier] = _trust(entry.fields(required=("default_trust",))["default_trust"], tier)
    return trust


def _category(
    path: str, entry: Marked, default_trust: Mapping[Tier, float], check_json_path: PathCheck | None
) -> Category:
    if not _CATEGORY_PATH.match(path):
        raise entry.error(f"category path {path!r} must be lower-case names of letters, digits and _, joined by /")
    fields = entry.fields(required=_REQUIRED, optional=_OPTIONAL)
    tier = _tier(fields["tier"].text(), fields["tier"], tuple(default_trust))
    schema = _schema(fields["schema"])
    claims = {name: tuple(_claim(one, name) for one in fields[name].items()) for name in _CLAIMS if name in fields}
    return Category(
        path=path,
        tier=tier,
        trust=_trust(fields["trust"], tier) if "trust" in fields else default_trust[tier],
        retention=_retention(fields["retention"]),
        description=fields["description"].text(),
        schedule=_schedule(fields["schedule"]) if "schedule" in fields else None,
        folders=tuple(_folder(item) for item in fields["folders"].items()) if "folders" in fields else (),
        schema=schema,
        embed=tuple(_embedded(item, schema) for item in fields["embed"].items()),
        json_mapping=_json_mapping(fields["json"], check_json_path) if "json" in fields else {},
        graph=fields["graph"].flag() if "graph" in fields else False,
        ages_by=_one_of(Ageing, fields["ages_by"], "ages_by") if "ages_by" in fields else Ageing.EDIT,
        speaks=_one_of(Speech, fields["speaks"], "speaks")
        if "speaks" in fields
        else default_speech(path, tier, (*claims.get("formats", ()), *claims.get("connectors", ()))),
        **claims,
    )


def _tier(name: str, entry: Marked, allowed: tuple[Tier, ...]) -> Tier:
    if name not in allowed:
        raise entry.error(f"unknown tier {name!r}; allowed: {', '.join(allowed)}")
    return Tier(name)


def _trust(entry: Marked, tier: Tier) -> float:
    low, high = TRUST_RANGE[tier]
    trust = entry.number()
    if not low <= trust <= high:
        allowed = f"{low}" if low == high else f"{low} to {high}"
        raise entry.error(f"trust {trust} is wrong for tier {tier}; allowed: {allowed}")
    return trust


def _retention(entry: Marked) -> str:
    text = entry.text()
    try:
        retention_days(text)
    except InvalidInputError as exc:
        allowed = "permanent, or a number with d, m or y"
        raise entry.error(f"unknown retention {text!r}; allowed: {allowed}") from exc
    return text


def _one_of(kind: type[E], entry: Marked, name: str) -> E:
    text = entry.text()
    if text not in tuple(kind):
        raise entry.error(f"unknown {name} {text!r}; allowed: {', '.join(kind)}")
    return kind(text)


def _schedule(entry: Marked) -> str:
    text = entry.text()
    count = len(text.split())
    if count != 5:
        raise entry.error(f"schedule {text!r} has {count} fields; needed: minute hour day-of-month month day-of-week")
    if importlib.util.find_spec("cronsim"):
        from datetime import UTC, datetime

        from cronsim import CronSim, CronSimError

        try:
            CronSim(text, datetime(2000, 1, 1, tzinfo=UTC))
        except CronSimError as exc:
            raise entry.error(f"schedule {text!r} is not a cron expression: {str(exc).lower()}") from exc
    return text


def _folder(entry: Marked) -> str:
    folder = entry.text()
    if not all(folder.split("/")) or ".." in folder.split("/"):
        raise entry.error(f"folder {folder!r} must be a name, or names joined by /, without a / at either end")
    return folder


def _schema(entry: Marked) -> dict[str, str]:
    schema = {}
    for field, kind in entry.entries().items():
        schema[field] = kind.text()
        if schema[field] not in JSON_TYPES:
            raise kind.error(f"unknown JSON type {schema[field]!r} of {field!r}; allowed: {', '.join(JSON_TYPES)}")
    return schema


def _embedded(entry: Marked, schema: Mapping[str, str]) -> str:
    field = entry.text()
    if field not in schema:
        raise entry.error(f"embed names {field!r}, which is not in the schema; allowed: {', '.join(schema)}")
    return field


def _json_mapping(entry: Marked, check_path: PathCheck | None) -> dict[str, str]:
    fields = entry.fields(required=JSON_MAPPING_FIELDS[:2], optional=JSON_MAPPING_FIELDS[2:])
    mapping = {}
    for field, value in fields.items():
        mapping[field] = value.text()
        if check_path is not None:
            try:
                check_path(mapping[field])
            except InvalidInputError as exc:
                raise value.error(f"json.{field}: {exc}") from exc
    return mapping


def _refuse_shared_folders(entries: Marked, categories: Mapping[str, Category]) -> None:
    owners = {path: path for path in categories}
    for path, entry in entries.entries().items():
        for folder in categories[path].folders:
            owner = owners.setdefault(folder, path)
            if owner != path:
                raise entry.fields(required=_REQUIRED, optional=_OPTIONAL)["folders"].error(
                    f"folder {folder!r} implies {owner} already; a folder belongs to one category"
                )


def _claim(entry: Marked, name: str) -> str:
    text = entry.text()
    if name == "formats" and text not in FORMATS:
        raise entry.error(f"unknown format {text!r}; allowed: {', '.join(FORMATS)}")
    return text


def _refuse_shared_claims(entries: Marked, categories: Mapping[str, Category]) -> None:
    owners: dict[tuple[str, str], str] = {}
    for path, entry in entries.entries().items():
        for name in _CLAIMS:
            for claim in getattr(categories[path], name):
                owner = owners.setdefault((name, claim.casefold()), path)
                if owner != path:
                    raise entry.fields(required=_REQUIRED, optional=_OPTIONAL)[name].error(
                        f"{name} {claim!r} belongs to {owner} already; give it to one category"
                    )


# -- installation


class Installation:
    """Settings, clock and the lazily read declarations of knowledge.yaml."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.settings = settings
        self.clock = clock
        self._declared: dict[Callable[[Path | None], Any], Any] = {}

    @cached_property
    def knowledge(self) -> KnowledgeModel:
        """Tiers and categories. Raises `KnowledgeConfigError`."""
        return load_knowledge(self.knowledge_path)

    @property
    def knowledge_path(self) -> Path | None:
        """The path of knowledge.yaml; None for the one of the library."""
        path = self.settings.knowledge_file
        return Path(path) if path else None

    def declared(self, read: Callable[[Path | None], T]) -> T:
        """Reads a section of knowledge.yaml once, with a function of the file's path. Raises that function's errors."""
        if read not in self._declared:
            self._declared[read] = read(self.knowledge_path)
        found: T = self._declared[read]
        return found

    def declare(self, read: Callable[[Path | None], T], value: T) -> None:
        """Have `declared(read)` return this value, whatever the file says."""
        self._declared[read] = value

    def identity_of(self, given: Identity | None) -> Identity:
        """The given identity, or the one that the installation is configured for."""
        return given or Identity(self.settings.client_id, self.settings.project_id)

    @property
    def scope(self) -> Scope:
        """The scope of this installation's own documents, as configured."""
        return Scope(self.settings.client_id, project_id=self.settings.project_id)
