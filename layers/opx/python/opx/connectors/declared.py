"""The sources that `knowledge.yaml` declares, and what any source's definition must be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opx.connectors.states import checked_cron, checked_zone
from opx.domain.knowledge import KnowledgeModel
from opx.domain.sources import MAX_MISSING_SHARE, SourceDefinition
from opx.errors import InvalidInputError
from opx.runtime.knowledge_file import Marked, read_section

_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,47}\Z")
_FIELDS = ("tier", "schedule", "time_zone", "enabled", "options", "tags", "topics", "max_missing_share")


def declared_sources(knowledge: KnowledgeModel, path: Path | None = None) -> dict[str, SourceDefinition]:
    """The sources of the file by id. Raises `KnowledgeConfigError` with file and line."""
    section = read_section("sources", path)
    if section is None:
        return {}
    return {source_id: _declared(source_id, entry, knowledge) for source_id, entry in section.entries().items()}


def _declared(source_id: str, entry: Marked, knowledge: KnowledgeModel) -> SourceDefinition:
    given = {
        name: field.plain() for name, field in entry.fields(required=("kind", "category"), optional=_FIELDS).items()
    }
    try:
        return definition_of(source_id, given, knowledge)
    except InvalidInputError as exc:
        raise entry.error(str(exc)) from exc


def definition_of(source_id: str, given: Mapping[str, Any], knowledge: KnowledgeModel) -> SourceDefinition:
    """A definition from its fields: `kind` and `category`, and what else `SourceDefinition` has. The category gives the
    tier, and the schedule where none is given; `topics` is an option of its own name.

    Raises `InvalidInputError` that names the field. The options are not checked: see `registry.checked_options`.
    """
    if not _ID.match(source_id):
        raise InvalidInputError(
            f"source {source_id!r}: ids are up to 48 of a-z, 0-9, - and _, and begin with a letter or digit"
        )
    unknown = set(given) - {"kind", "category", *_FIELDS}
    if unknown:
        allowed = ", ".join(("kind", "category", *_FIELDS))
        raise InvalidInputError(f"source {source_id}: unknown field {min(unknown)!r}; allowed: {allowed}")
    category = knowledge.category(str(given.get("category", "")))
    tier = given.get("tier", category.tier.value)
    if tier != category.tier.value:
        raise InvalidInputError(
            f"source {source_id}: category {category.path} is of tier {category.tier.value}, not {tier!r}"
        )
    schedule = given.get("schedule")
    if schedule is None:
        schedule = category.schedule or ""
    options = dict(_mapping(given.get("options") or {}, source_id))
    if "topics" in given:
        options["topics"] = given["topics"]
    return SourceDefinition(
        source_id=source_id,
        kind=_text(given.get("kind"), "kind", source_id),
        category=category.path,
        tier=category.tier,
        schedule=checked_cron(schedule) if schedule else "",
        time_zone=checked_zone(given.get("time_zone") or "UTC"),
        enabled=_flag(given.get("enabled", True), source_id),
        options=options,
        tags=tuple(_text(tag, "tags", source_id) for tag in given.get("tags") or ()),
        max_missing_share=_share(given.get("max_missing_share", MAX_MISSING_SHARE), source_id),
    )


def _mapping(value: Any, source_id: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"source {source_id}: options must be a mapping (name: value)")
    return value


def _text(value: Any, field: str, source_id: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError(f"source {source_id}: {field} must be a text")
    return value.strip()


def _flag(value: Any, source_id: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidInputError(f"source {source_id}: enabled must be true or false")
    return value


def _share(value: Any, source_id: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidInputError(f"source {source_id}: max_missing_share must be between 0 and 1, such as 0.2")
    return float(value)
