"""Which category evidence of agents belongs to: rules of `knowledge.yaml`, section `evidence`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opx.domain.evidence import EVIDENCE_FIELDS, Evidence
from opx.domain.knowledge import Category, KnowledgeModel
from opx.errors import InvalidInputError
from opx.runtime.knowledge_file import Marked, read_section

_CONDITIONS = ("agent_type", "outcome", "verified", "has")


@dataclass(frozen=True, slots=True)
class Rule:
    """Fits evidence whose agent type and outcome are among those named (any, if none is), whose `verified` is as said
    (either, if nothing is), and that has the fields `has`."""

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
    """Which category evidence belongs to: that of the first rule that fits, or else the default."""

    knowledge: KnowledgeModel
    default: str
    rules: tuple[Rule, ...] = ()

    def category_of(self, evidence: Evidence) -> Category:
        return self.knowledge.category(
            next((rule.category for rule in self.rules if rule.fits(evidence)), self.default)
        )

    @property
    def categories(self) -> tuple[str, ...]:
        """All that evidence may end up in."""
        return tuple(dict.fromkeys((self.default, *(rule.category for rule in self.rules))))


def read_evidence_rules(knowledge: KnowledgeModel, path: Path | None = None) -> EvidenceRules:
    """The rules of the file. Without them all evidence is of the default category. Raises `KnowledgeConfigError` with
    file and line."""
    section = read_section("evidence", path)
    if section is None:
        return EvidenceRules(knowledge, knowledge.default_category)
    given = section.fields(required=("default",), optional=("rules",))
    rules = [_rule(entry, knowledge) for entry in given["rules"].items()] if "rules" in given else []
    return EvidenceRules(knowledge, _category(given["default"], knowledge), tuple(rules))


def _rule(entry: Marked, knowledge: KnowledgeModel) -> Rule:
    given = entry.fields(required=("category",), optional=_CONDITIONS)
    verified = given["verified"].plain() if "verified" in given else None
    if verified is not None and not isinstance(verified, bool):
        raise given["verified"].error("verified must be true or false")
    has = _texts(given.get("has"))
    for name in has:
        if name not in EVIDENCE_FIELDS:
            raise given["has"].error(
                f"has names {name!r}, which evidence has not; there are: {', '.join(EVIDENCE_FIELDS)}"
            )
    return Rule(
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
