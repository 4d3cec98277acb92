"""What agents found out, as documents.

The category follows from the rules; the first that fits counts. Where the category reads records of its fields, evidence
becomes one, else Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opx.domain.ids import stable_hash
from opx.domain.knowledge import Category
from opx.errors import InvalidInputError
from opx.ingestion.events import SIDECAR_SUFFIX
from opx.ingestion.evidence_fields import BY_NAME, checked
from opx.ingestion.evidence_rules import EvidenceRules, read_evidence_rules

if TYPE_CHECKING:
    from opx.ingestion.manager import IngestionManager
    from opx.ports import ObjectStore

__all__ = ["EvidenceDocument", "EvidenceRules", "evidence_document", "put_evidence", "read_evidence_rules"]

FOLDER = "evidence"
_MAX_TAG = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")


@dataclass(frozen=True, slots=True)
class EvidenceDocument:
    """Evidence as it is put. `metadata` has `source`, the name that stays."""

    category: str
    content: str | Mapping[str, Any]
    metadata: Mapping[str, Any]


def put_evidence(
    manager: IngestionManager, store: ObjectStore, rules: EvidenceRules, evidence: Mapping[str, Any]
) -> str:
    """Put evidence into the corpus and return its object key. What the same evidence was in another category (before it
    was verified, say) goes. Raises `InvalidInputError` that names the field."""
    document = evidence_document(rules, evidence)
    source = document.metadata["source"]
    key = manager.put_document(document.category, document.content, document.metadata)
    folder = key.removesuffix(f"{document.category}/{source}")
    stem = source.rpartition(".")[0]
    for category in rules.categories:
        for suffix in (".json", ".md"):
            other = f"{folder}{category}/{stem}{suffix}"
            if other != key and store.head(other):
                manager.delete_object(other)
    return key


def evidence_document(rules: EvidenceRules, evidence: Mapping[str, Any]) -> EvidenceDocument:
    """The document that evidence becomes: the same for the same evidence. Raises `InvalidInputError`."""
    found = checked(evidence)
    category = rules.category_of(found)
    record = _record(found)
    _check_needs(category, record)
    identity = found.get("evidence_id") or stable_hash("evidence", found)
    is_name = _NAME.match(identity) and not f"{identity}.json".endswith(SIDECAR_SUFFIX)
    name = identity if is_name else stable_hash("evidence id", identity)
    tags = [found["agent_type"], found["outcome"], *([found["incident"]] if found.get("incident") else [])]
    as_record = _is_read_by(category, record)
    facts = {
        "tags": list(dict.fromkeys(tag[:_MAX_TAG] for tag in (*found.get("tags", ()), *tags))),
        "author": found["agent_type"],
        "source": f"{FOLDER}/{name}{'.json' if as_record else '.md'}",
    }
    content: str | Mapping[str, Any] = record if as_record else _markdown(record)
    return EvidenceDocument(category.path, content, facts)


def _record(found: Mapping[str, Any]) -> dict[str, Any]:
    """All that was given, under the names by which the categories of evidence find it."""
    first = next((found[name] for name in ("title", "problem", "task") if found.get(name)), "")
    title = first or next(iter(found.get("conclusion", ())), "") or f"{found['outcome']} by {found['agent_type']}"
    record = {
        **found,
        "title": " ".join(title.split())[:300],
        "conclusions": found.get("conclusion"),
        "author": found["agent_type"],
        "created_at": found.get("started_at"),
        "verified_at": found.get("finished_at") if found.get("verified") else None,
    }
    record.pop("conclusion", None)
    record.pop("tags", None)  # which the metadata have
    return {name: value for name, value in record.items() if value is not None}


def _check_needs(category: Category, record: Mapping[str, Any]) -> None:
    """Of the fields that the category searches, those that are one text are needed, and of lists at least one."""
    searched = [name for name in category.embed if name in record or name in BY_NAME or name == "conclusions"]
    texts = [name for name in searched if category.schema[name] == "string"]
    missing = [name for name in texts if not record.get(name)]
    if missing:
        raise InvalidInputError(f"evidence for {category.path} needs {' and '.join(missing)}")
    if searched and not any(record.get(name) for name in searched):
        raise InvalidInputError(f"evidence for {category.path} needs {' or '.join(searched)}")


def _is_read_by(category: Category, record: Mapping[str, Any]) -> bool:
    """Whether the category's mapping finds a title and a content in the record."""
    if not category.json_mapping:
        return False
    from opx.ingestion.parsing.json_paths import compile_paths

    found = (compile_paths(category.json_mapping[name]) for name in ("title", "content"))
    return all(any(path.values(record) for path in paths) for paths in found)


def _markdown(record: Mapping[str, Any]) -> str:
    """For a category that doesn't read such records."""
    parts = [f"# {record['title']}\n"]
    for name, value in record.items():
        if name in ("title", "author", "created_at", "details"):
            continue
        called = name.replace("_", " ").capitalize()
        text = "\n".join(f"- {' '.join(each.split())}" for each in value) if isinstance(value, list) else str(value)
        parts.append(f"## {called}\n\n{text}\n")
    return "\n".join(parts)
