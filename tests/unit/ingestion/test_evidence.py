"""Evidence as documents: category, content, and one document each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.domain.evidence import Evidence
from opx.domain.record import replace
from opx.errors import InvalidInputError, KnowledgeConfigError
from opx.ingestion.evidence import (
    EvidenceDocument,
    EvidenceRule,
    EvidenceRules,
    evidence_document,
    put_evidence,
    read_evidence_rules,
)
from opx.ingestion.evidence_reading import read_evidence
from opx.ingestion.files import OBJECT_METADATA
from opx.operations.system import System
from opx.runtime.knowledge_file import load_knowledge
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.fakes import WordsEmbedder

RUN = {
    "evidence_id": "run-17",
    "agent_type": "investigator",
    "outcome": "investigated",
    "task": "Why is the checkout slow?",
    "conclusion": ["The pool of connections is too small."],
    "observations": ["p95 rose to 4 s.", "The pool was used up."],
    "incident": "INC-7",
    "services": ["checkout"],
    "started_at": "2026-01-02T10:00:00Z",
    "details": {"model": "m1", "steps": 12},
}
FIX = {
    **RUN,
    "outcome": "resolved",
    "verified": True,
    "problem": "The checkout is slow.",
    "solution": "Raise the pool to 50 connections.",
    "finished_at": "2026-01-02T11:00:00Z",
}
AGENT_RUNS, REMEDIATION = "evidence/agent_runs", "evidence/remediation"


@pytest.fixture(scope="module")
def rules() -> EvidenceRules:
    return read_evidence_rules(load_knowledge())


@pytest.fixture
def services(tmp_path: Path) -> Iterator[System]:
    with bootstrap(Settings(home=str(tmp_path)), embedder=WordsEmbedder()) as found:
        yield found


def put(services: System, evidence: object) -> str:
    return put_evidence(services.manager, services.store, services.ingestion.evidence_rules, read_evidence(evidence))


def document(rules: EvidenceRules, evidence: object) -> EvidenceDocument:
    return evidence_document(rules, read_evidence(evidence))


def keys(services: System) -> list[str]:
    return [info.key for info in services.store.list("documents/")]


class TestCategory:
    @pytest.mark.parametrize(
        ("changes", "category"),
        [
            ({}, AGENT_RUNS),
            ({"outcome": "failed"}, AGENT_RUNS),
            ({"outcome": "resolved", "verified": False}, AGENT_RUNS),
            ({"outcome": "resolved"}, AGENT_RUNS),
            ({"outcome": "investigated", "verified": True}, AGENT_RUNS),
            (FIX, REMEDIATION),
            ({**FIX, "outcome": "Mitigated"}, REMEDIATION),
            ({**FIX, "verified": False}, AGENT_RUNS),
        ],
    )
    def test_only_a_verified_resolution_is_a_remedy(
        self, rules: EvidenceRules, changes: dict[str, Any], category: str
    ) -> None:
        assert document(rules, {**RUN, **changes}).category == category

    def test_the_first_rule_that_fits_counts(self) -> None:
        knowledge = load_knowledge()
        first = EvidenceRule("postmortems", agent_types=("Reviewer",), has=("conclusion",))
        rules = EvidenceRules(knowledge, AGENT_RUNS, (first, EvidenceRule(REMEDIATION)))
        bare = Evidence(agent_type="reviewer", outcome="x")
        assert rules.category_of(replace(bare, conclusion=("c",))).path == "postmortems"
        assert rules.category_of(bare).path == REMEDIATION
        assert EvidenceRules(knowledge, AGENT_RUNS).category_of(bare).path == AGENT_RUNS


class TestDocument:
    def test_a_run_is_a_record_of_its_category(self, rules: EvidenceRules) -> None:
        found = document(rules, RUN)
        assert isinstance(found.content, dict)
        assert found.content["title"] == "Why is the checkout slow?"
        assert found.content["conclusions"] == ["The pool of connections is too small."]
        assert found.content["observations"] == RUN["observations"]
        assert found.metadata == {
            "tags": ["investigator", "investigated", "INC-7"],
            "author": "investigator",
            "source": "evidence/run-17.json",
        }

    def test_origin_of_evidence_is_kept(self, rules: EvidenceRules) -> None:
        content = document(rules, {**RUN, "run_id": "r1", "sources": ["doc-1"]}).content
        assert isinstance(content, dict)
        kept = {
            name: content[name] for name in ("evidence_id", "agent_type", "run_id", "sources", "incident", "details")
        }
        assert kept == {
            "evidence_id": "run-17",
            "agent_type": "investigator",
            "run_id": "r1",
            "sources": ["doc-1"],
            "incident": "INC-7",
            "details": {"model": "m1", "steps": 12},
        }

    def test_a_category_that_reads_no_such_records_gets_markdown(self) -> None:
        for category in ("postmortems", "operations/incidents"):
            found = document(EvidenceRules(load_knowledge(), category), RUN)
            assert isinstance(found.content, str)
            assert found.content.startswith("# Why is the checkout slow?\n")
            assert "## Observations\n\n- p95 rose to 4 s.\n- The pool was used up.\n" in found.content
            assert found.metadata["source"] == "evidence/run-17.md"

    def test_a_text_alone_counts_as_a_list_of_one(self, rules: EvidenceRules) -> None:
        content = document(rules, {**RUN, "conclusion": "One."}).content
        assert isinstance(content, dict)
        assert content["conclusions"] == ["One."]

    @pytest.mark.parametrize("identity", ["../x", "a/b", "ä", "x" * 300, ".hidden", "a b", "run.metadata"])
    def test_an_odd_id_is_a_plain_name_and_the_same_each_time(self, rules: EvidenceRules, identity: str) -> None:
        names = {document(rules, {**RUN, "evidence_id": identity}).metadata["source"] for _ in range(2)}
        (name,) = names
        assert name.removeprefix("evidence/").removesuffix(".json").isalnum()

    def test_without_an_id_equal_evidence_is_one_document(self, rules: EvidenceRules) -> None:
        nameless = {name: value for name, value in RUN.items() if name != "evidence_id"}
        same, other = dict(reversed(nameless.items())), {**nameless, "task": "Another"}
        sources = [document(rules, each).metadata["source"] for each in (nameless, same, other)]
        assert sources[0] == sources[1] != sources[2]


class TestPut:
    def test_it_is_found_under_its_id(self, services: System) -> None:
        key = put(services, RUN)
        assert key == f"documents/{AGENT_RUNS}/evidence/run-17.json"
        info = services.store.head(key)
        assert info is not None
        assert json.loads(info.metadata[OBJECT_METADATA])["category"] == AGENT_RUNS

    def test_sent_again_it_is_the_same_document(self, services: System) -> None:
        assert put(services, RUN) == put(services, {**RUN, "conclusion": ["Changed."]})
        assert len(keys(services)) == 1

    @pytest.mark.parametrize(("first", "then", "category"), [(RUN, FIX, REMEDIATION), (FIX, RUN, AGENT_RUNS)])
    def test_once_it_is_verified_it_is_a_remedy_and_no_longer_a_run(
        self, services: System, first: dict[str, Any], then: dict[str, Any], category: str
    ) -> None:
        put(services, first)
        assert put(services, then) == f"documents/{category}/evidence/run-17.json"
        assert keys(services) == [f"documents/{category}/evidence/run-17.json"]

    def test_it_can_be_read_by_the_pipeline(self, services: System) -> None:
        run, fix = (services.manager.ingest_from_evidence(each) for each in (RUN, {**FIX, "evidence_id": "f"}))
        assert [document.category for document in services.corpus.catalog.find(run)] == [AGENT_RUNS]
        (found,) = services.corpus.catalog.find(fix)
        assert (found.category, found.title) == (REMEDIATION, "The checkout is slow.")
        assert found.tags == ("investigator", "resolved", "INC-7")
        assert found.services == ("checkout",)


class TestRefused:
    @pytest.mark.parametrize(
        ("evidence", "problem"),
        [
            ("text", "must be an object"),
            ([], "must be an object"),
            (5, "must be an object"),
            ({}, "needs conclusions or observations, or a problem with its solution"),
            ({"agent_type": "a", "outcome": "b"}, "needs conclusions or observations"),
            ({"agent_type": "a", "conclusion": "  ", "solution": ""}, "there is no text in it"),
        ],
    )
    def test_evidence_without_fields_or_text_is_refused_with_the_reason(
        self, rules: EvidenceRules, evidence: object, problem: str
    ) -> None:
        with pytest.raises(InvalidInputError, match=re.escape(problem)):
            document(rules, evidence)

    def test_given_evidence_is_not_changed(self, rules: EvidenceRules) -> None:
        given = json.loads(json.dumps(FIX))
        document(rules, given)
        assert given == FIX


class TestRules:
    def of(self, tmp_path: Path, section: str) -> EvidenceRules:
        categories = "categories: {a: {tier: internal, description: d, retention: 1y, schema: {c: string}, embed: [c]}}"
        head = "default_category: a\ntiers: {internal: {default_trust: 1.0}}\n" + categories + "\n"
        file = tmp_path / "knowledge.yaml"
        file.write_text(head + section)
        return read_evidence_rules(load_knowledge(file), file)

    def test_without_the_section_all_is_of_the_default_category(self, tmp_path: Path) -> None:
        assert self.of(tmp_path, "").categories == ("a",)

    def test_a_rule_may_name_one_or_several(self, tmp_path: Path) -> None:
        rule = "{category: a, agent_type: x, outcome: [y, z], verified: false, has: [task]}"
        (found,) = self.of(tmp_path, f"evidence: {{default: a, rules: [{rule}]}}").rules
        assert found == EvidenceRule("a", ("x",), ("y", "z"), verified=False, has=("task",))

    @pytest.mark.parametrize(
        ("section", "problem"),
        [
            ("evidence: {}", "needs the key 'default'"),
            ("evidence: {default: b}", "unknown category 'b'"),
            ("evidence: {default: a, rules: [{}]}", "needs the key 'category'"),
            ("evidence: {default: a, rules: [{category: a, verified: maybe}]}", "verified must be true or false"),
            ("evidence: {default: a, rules: [{category: a, has: [colour]}]}", "has names 'colour'"),
            ("evidence: {default: a, rules: [{category: a, when: x}]}", "unknown key 'when'"),
        ],
    )
    def test_mistakes_are_refused_with_file_and_line(self, tmp_path: Path, section: str, problem: str) -> None:
        with pytest.raises(KnowledgeConfigError) as caught:
            self.of(tmp_path, section)
        assert f"{tmp_path / 'knowledge.yaml'}:4: " in str(caught.value)
        assert problem in str(caught.value)


EVERYTHING = {
    **FIX,
    "title": "t",
    "node": "web-01",
    "symptom": "s",
    "severity": "high",
    "tags": ["a"],
    "url": "https://runs.example.org/17",
    "run_id": "r",
    "sources": ["doc-1"],
}


def test_every_field_can_be_given() -> None:
    assert set(EVERYTHING) == set(Evidence.__struct_fields__)
    assert read_evidence(EVERYTHING).to_json() == EVERYTHING


def test_texts_are_stripped_and_fields_without_a_value_left_out() -> None:
    given = {"agent_type": " a ", "outcome": "b", "task": "  ", "tags": ["x ", " "], "services": [], "details": {}}
    assert read_evidence({**given, "title": None}).to_json() == {"agent_type": "a", "outcome": "b", "tags": ["x"]}
