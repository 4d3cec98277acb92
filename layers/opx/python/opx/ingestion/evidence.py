"""Converts evidence of agents to documents.

The category follows from the rules; the first that fits counts. Evidence becomes a JSON record if the category's mapping can
read it, else Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opx.domain.evidence import EVIDENCE_FIELDS, Evidence
from opx.domain.ids import stable_hash
from opx.domain.knowledge import Category, KnowledgeModel
from opx.domain.resources import resources_in
from opx.errors import InvalidInputError
from opx.ingestion.events import SIDECAR_SUFFIX
from opx.runtime.knowledge_file import Marked, read_section

if TYPE_CHECKING:
    from opx.ingestion.corpus_writer import CorpusWriter
    from opx.ports import ObjectStore


__all__ = [
    "EvidenceDocument",
    "EvidenceRules",
    "evidence_document",
    "put_evidence",
    "read_evidence_rules",
]

FOLDER = "evidence"
UNVERIFIED = "unverified"
"""Tag of evidence with a solution that nobody verified."""
NOT_VERIFIED = " (solution not verified)"
_MAX_TITLE = 300
_MAX_TAG = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")


@dataclass(frozen=True, slots=True)
class EvidenceDocument:
    """Evidence as a document. `metadata` has `source`, its stable name."""

    category: str
    content: str | Mapping[str, Any]
    metadata: Mapping[str, Any]


def put_evidence(manager: CorpusWriter, store: ObjectStore, rules: EvidenceRules, evidence: Evidence) -> str:
    """Puts evidence into the corpus and returns its object key. The document of the same evidence in another category
    (before it was verified, say) is deleted. Raises `InvalidInputError` for evidence without any text."""
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


def evidence_document(rules: EvidenceRules, evidence: Evidence) -> EvidenceDocument:
    """The document of evidence: deterministic. Raises `InvalidInputError` for evidence without any text.

    Evidence without the fields of its category is of the default category. There a problem and a solution are among the
    observations and conclusions, and a solution that nobody verified is marked as such.
    """
    category = rules.category_of(evidence)
    record = _record(evidence, category)
    if not _has_searched_fields(category, record):
        category = rules.knowledge.category(rules.default)
        record = _record(evidence, category)
    identity = evidence.evidence_id or stable_hash("evidence", evidence.to_json())
    is_name = _NAME.match(identity) and not f"{identity}.json".endswith(SIDECAR_SUFFIX)
    name = identity if is_name else stable_hash("evidence id", identity)
    as_record = _is_read_by(category, record)
    facts = {
        **_stated(evidence),
        "tags": list(dict.fromkeys(tag[:_MAX_TAG] for tag in _tags(evidence))),
        "author": evidence.agent_type,
        "source": f"{FOLDER}/{name}{'.json' if as_record else '.md'}",
    }
    content: str | Mapping[str, Any] = record if as_record else _markdown(record)
    return EvidenceDocument(category.path, content, facts)


def _stated(evidence: Evidence) -> dict[str, Any]:
    """Its node and the details that name resources, such as `host`, and its sources, as metadata of the document."""
    named = {name: value for name, value in (evidence.details or {}).items() if resources_in({name: value})}
    own = {"node": evidence.node, "sources": list(evidence.sources)}
    return {**named, **{name: value for name, value in own.items() if value}}


def _tags(evidence: Evidence) -> Iterator[str]:
    yield from evidence.tags
    yield from (evidence.agent_type, evidence.outcome)
    if evidence.incident:
        yield evidence.incident
    if evidence.solution and not evidence.verified:
        yield UNVERIFIED


def _record(evidence: Evidence, category: Category) -> dict[str, Any]:
    """Fields with a value, under the names that the mappings of the categories read. Raises `InvalidInputError`."""
    given = evidence.to_json()
    given.pop("tags", None)  # they are in the metadata
    conclusions, observations = _searched_texts(evidence, category)
    given.pop("conclusion", None)
    record = {
        **given,
        "title": _title(evidence),
        "conclusions": conclusions or None,
        "observations": observations or None,
        "verified": bool(evidence.verified) if evidence.solution else given.get("verified"),
        "author": evidence.agent_type,
        "created_at": evidence.started_at or None,
        "verified_at": evidence.finished_at or None if evidence.verified else None,
    }
    return {name: value for name, value in record.items() if value is not None}


def _title(evidence: Evidence) -> str:
    """A line; that of an unverified solution states it, as every passage has the title."""
    title = evidence.title or evidence.problem or _sighting(evidence)
    title = title or evidence.task or next(iter(evidence.conclusion), "")
    line = " ".join((title or f"{evidence.outcome} by {evidence.agent_type}").split())
    if not evidence.solution or evidence.verified:
        return line[:_MAX_TITLE]
    return f"{line[: _MAX_TITLE - len(NOT_VERIFIED)]}{NOT_VERIFIED}"


def _sighting(evidence: Evidence) -> str:
    """The symptom and the resource where it was seen: `high CPU on web-server-01`; "" without a symptom."""
    seen = evidence.symptom.casefold()
    where = next((f" on {name}" for name in resources_in(_stated(evidence)) if name not in seen), "")
    return evidence.symptom and evidence.symptom + where


def _searched_texts(evidence: Evidence, category: Category) -> tuple[list[str], list[str]]:
    """Conclusions and observations, with the symptom or the node, and with the problem and the solution where the category
    doesn't search these fields. Without any of them, its title, task or details. Raises `InvalidInputError` for evidence
    without any text."""
    conclusions, observations = list(evidence.conclusion), list(evidence.observations)
    if evidence.solution and "solution" not in category.embed:
        verdict = "Verified solution" if evidence.verified else "Solution, not verified"
        conclusions.append(f"{verdict}: {evidence.solution}")
    if evidence.problem and "problem" not in category.embed:
        observations.append(f"Problem: {evidence.problem}")
    where = [f"Symptom: {_sighting(evidence)}"] if evidence.symptom else []
    where = where or ([f"Node: {evidence.node}"] if evidence.node else [])
    if conclusions or observations or evidence.problem or evidence.solution or evidence.symptom:
        return conclusions, [*where, *observations]
    stated = [*where, *(text for text in (evidence.title, evidence.task) if text)]
    stated += [
        f"{name}: {value}" for name, value in (evidence.details or {}).items() if isinstance(value, str | float | int)
    ]
    if not stated:
        raise InvalidInputError(
            f"evidence for {category.path} needs conclusions or observations, or a problem with its solution: there is "
            "no text in it"
        )
    return [], stated


def _has_searched_fields(category: Category, record: Mapping[str, Any]) -> bool:
    """True if every searched string field of evidence, and at least one searched field, has a value."""
    searched = [name for name in category.embed if name in record or name in EVIDENCE_FIELDS or name == "conclusions"]
    texts = [name for name in searched if category.schema[name] == "string"]
    return all(record.get(name) for name in texts) and (not searched or any(record.get(name) for name in searched))


def _is_read_by(category: Category, record: Mapping[str, Any]) -> bool:
    """True if the category's mapping finds a title and a content in the record."""
    if not category.json_mapping:
        return False
    from opx.formats.data.json_mapping import compile_paths

    found = (compile_paths(category.json_mapping[name]) for name in ("title", "content"))
    return all(any(path.values(record) for path in paths) for paths in found)


def _markdown(record: Mapping[str, Any]) -> str:
    """The record as Markdown, for a category that doesn't read such records."""
    parts = [f"# {record['title']}\n"]
    for name, value in record.items():
        if name in ("title", "author", "created_at", "details"):
            continue
        called = name.replace("_", " ").capitalize()
        text = "\n".join(f"- {' '.join(each.split())}" for each in value) if isinstance(value, list) else str(value)
        parts.append(f"## {called}\n\n{text}\n")
    return "\n".join(parts)


# -- evidence rules


_CONDITIONS = ("agent_type", "outcome", "verified", "has")


@dataclass(frozen=True, slots=True)
class EvidenceRule:
    """Fits evidence whose agent type and outcome are listed (an empty list fits any), whose `verified` is equal (None fits
    both), and that has the fields `has`."""

    category: str
    agent_types: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()
    verified: bool | None = None
    has: tuple[str, ...] = ()

    def fits(self, evidence: Evidence) -> bool:
        return (
            _is_among(evidence.agent_type, self.agent_types)
            and _is_among(evidence.outcome, self.outcomes)
            and self.verified in (None, bool(evidence.verified))
            and all(getattr(evidence, name) for name in self.has)
        )


@dataclass(frozen=True, slots=True)
class EvidenceRules:
    """Rules for the category of evidence: that of the first rule that fits, else the default."""

    knowledge: KnowledgeModel
    default: str
    rules: tuple[EvidenceRule, ...] = ()

    def category_of(self, evidence: Evidence) -> Category:
        return self.knowledge.category(
            next((rule.category for rule in self.rules if rule.fits(evidence)), self.default)
        )

    @property
    def categories(self) -> tuple[str, ...]:
        """All categories that evidence may get."""
        return tuple(dict.fromkeys((self.default, *(rule.category for rule in self.rules))))


def read_evidence_rules(knowledge: KnowledgeModel, path: Path | None = None) -> EvidenceRules:
    """Reads the rules from the file. Without them all evidence is of the default category. Raises `KnowledgeConfigError` with
    file and line."""
    section = read_section("evidence", path)
    if section is None:
        return EvidenceRules(knowledge, knowledge.default_category)
    given = section.fields(required=("default",), optional=("rules",))
    rules = [_rule(entry, knowledge) for entry in given["rules"].items()] if "rules" in given else []
    return EvidenceRules(knowledge, _category(given["default"], knowledge), tuple(rules))


def _rule(entry: Marked, knowledge: KnowledgeModel) -> EvidenceRule:
    given = entry.fields(required=("category",), optional=_CONDITIONS)
    verified = given["verified"].plain() if "verified" in given else None
    if verified is not None and not isinstance(verified, bool):
        raise given["verified"].error("verified must be true or false")
    has = _texts(given.get("has"))
    for name in has:
        if name not in EVIDENCE_FIELDS:
            raise given["has"].error(
                f"has names {name!r}, which is no field of evidence; there are: {', '.join(EVIDENCE_FIELDS)}"
            )
    return EvidenceRule(
        category=_category(given["category"], knowledge),
        agent_types=_texts(given.get("agent_type")),
        outcomes=_texts(given.get("outcome")),
        verified=verified,
        has=has,
    )


def _category(entry: Marked, knowledge: KnowledgeModel) -> str:
    try:
        return knowledge.category(entry.text()).path
    except InvalidInputError as exc:
        raise entry.error(str(exc)) from exc


def _texts(entry: Marked | None) -> tuple[str, ...]:
    if entry is None:
        return ()
    return tuple(item.text() for item in entry.items()) if isinstance(entry.plain(), list) else (entry.text(),)


def _is_among(value: str, allowed: Sequence[str]) -> bool:
    return not allowed or value.casefold() in {each.casefold() for each in allowed}
