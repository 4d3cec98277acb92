"""Evidence in the forms that agents have: nothing of a run is refused at its last step."""

from __future__ import annotations

import dataclasses
import json
import re
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from opx.domain.evidence import MAX_TEXT, Evidence
from opx.domain.queries import QueryConfig
from opx.errors import InvalidInputError
from opx.ingestion.evidence_reading import read_evidence
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.fakes import WordsEmbedder

RUN = {"agent_type": "investigator", "outcome": "investigated", "conclusion": ["The pool is too small."]}


class Severity(Enum):
    HIGH = "high"


@dataclasses.dataclass
class Finding:
    text: str
    confidence: float


@dataclasses.dataclass
class Run:
    agent_type: str
    conclusion: list[str]
    node: str
    confidence: float
    started_at: datetime
    severity: Severity
    findings: list[Finding]
    incident: str | None = None


class Slots:
    __slots__ = ("conclusion", "node")

    def __init__(self) -> None:
        self.conclusion, self.node = "A leak.", "web-01"


class Tuple(NamedTuple):
    conclusion: str
    node: str


class Model:
    """An object as pydantic's."""

    def model_dump(self) -> dict[str, Any]:
        return {"conclusion": "A leak.", "node": "web-01"}


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    with bootstrap(Settings(home=str(tmp_path)), embedder=WordsEmbedder()) as found:
        yield found


def test_a_data_class_keeps_everything_that_it_has() -> None:
    at = datetime(2026, 1, 2, 10, tzinfo=UTC)
    run = Run("investigator", ["A leak."], "web-01", 0.8, at, Severity.HIGH, [Finding("heap grows", 0.9)])
    assert read_evidence(run).to_json() == {
        "agent_type": "investigator",
        "outcome": "investigated",
        "conclusion": ["A leak."],
        "node": "web-01",
        "severity": "high",
        "started_at": "2026-01-02T10:00:00Z",
        "details": {"confidence": 0.8, "findings": [{"text": "heap grows", "confidence": 0.9}]},
    }


@pytest.mark.parametrize(
    "given",
    [Slots(), Tuple("A leak.", "web-01"), Model(), SimpleNamespace(conclusion="A leak.", node="web-01", _hidden=1)],
)
def test_any_object_with_fields_is_evidence(given: object) -> None:
    evidence = read_evidence(given)
    assert (evidence.conclusion, evidence.node) == (("A leak.",), "web-01")


def test_a_record_of_evidence_is_taken_as_it_is() -> None:
    evidence = Evidence(conclusion="A leak.")
    assert read_evidence(evidence) is evidence


def test_names_in_camel_case_are_the_same_fields() -> None:
    assert read_evidence({"agentType": "a", "runId": "r", "nodeName": "n"}).to_json() == {
        "agent_type": "a",
        "outcome": "investigated",
        "run_id": "r",
        "details": {"nodeName": "n"},
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("verified", "yes"),
        ("conclusion", {"a": 1}),
        ("services", [{"name": "shop"}]),
        ("task", ["a", "b"]),
        ("started_at", "yesterday"),
        ("details", ["no", "object"]),
    ],
)
def test_a_value_that_does_not_fit_is_kept_among_the_details(field: str, value: object) -> None:
    evidence = read_evidence({**RUN, field: value})
    assert evidence.details == {field: value}
    assert not evidence.verified


def test_numbers_become_text_and_what_json_lacks_is_written_out() -> None:
    evidence = read_evidence({**RUN, "incident": 7, "conclusion": [1, 2.5], "load": float("nan"), "raw": b"x"})
    assert (evidence.incident, evidence.conclusion) == ("7", ("1", "2.5"))
    assert evidence.details == {"load": "nan", "raw": "eA=="}


def test_halves_of_surrogate_pairs_are_replaced() -> None:
    assert read_evidence({**RUN, "task": "a\ud800b"}).task == "a?b"


def test_an_object_that_contains_itself_ends() -> None:
    looped: dict[str, Any] = dict(RUN)
    looped["self"] = looped
    assert json.dumps(read_evidence(looped).to_json())


class TestLimits:
    def test_long_texts_are_shortened_with_a_remark(self) -> None:
        evidence = read_evidence({**RUN, "task": "x" * 52_310, "observations": ["y" * 30_000, "short"]})
        assert len(evidence.task) == MAX_TEXT
        assert evidence.task.endswith(" … (shortened from 52,310 characters)")
        assert evidence.observations[0].endswith("(shortened from 30,000 characters)")
        assert evidence.observations[1] == "short"

    def test_long_lists_end_with_a_remark(self) -> None:
        evidence = read_evidence({**RUN, "observations": [f"line {number}" for number in range(1000)]})
        assert len(evidence.observations) == 200
        assert evidence.observations[-1] == "(801 more left out)"

    def test_large_details_are_shortened_and_the_small_ones_kept_whole(self) -> None:
        evidence = read_evidence({**RUN, "log": "z" * 50_000, "room": "b2", **{f"f{n}": "q" * 1500 for n in range(12)}})
        assert evidence.details is not None
        assert evidence.details["room"] == "b2"
        assert len(json.dumps(evidence.details)) <= MAX_TEXT
        assert "log" in evidence.details["left_out"]

    def test_names_that_are_left_out_fit_in_any_script(self) -> None:
        many = {f"{'ключ' * 40}{number}": "значение" * 30 for number in range(60)}
        evidence = read_evidence({**RUN, **many})
        assert evidence.details is not None
        assert len(json.dumps(evidence.details)) <= MAX_TEXT
        assert len(evidence.details["left_out"]) == 10

    def test_evidence_of_ten_megabytes_is_kept_in_short(self, system: System) -> None:
        document = system.manager.ingest_from_evidence({**RUN, "raw": "lorem " * 1_750_000, "task": "pool " * 200_000})
        (found,) = system.corpus.catalog.find(document)
        assert found.category == "evidence/agent_runs"


class TestAwaiting:
    def test_a_coroutine_in_place_of_evidence_is_named(self, system: System) -> None:
        async def run() -> dict[str, object]:
            return dict(RUN)

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(InvalidInputError, match=r"never awaited: pass `await agent\.run"):
                system.manager.ingest_from_evidence(run())


class TestUnverified:
    def found(self, system: System, question: str) -> list[Any]:
        return list(system.questions.for_reader().query(question, QueryConfig(min_confidence=0)))

    def test_a_problem_and_a_solution_alone_are_evidence(self, system: System) -> None:
        document = system.manager.ingest_from_evidence(
            {"problem": "Checkout times out.", "solution": "Raise the pool to fifty connections."}
        )
        (kept,) = system.corpus.catalog.find(document)
        assert kept.category == "evidence/agent_runs"
        assert kept.title == "Checkout times out. (solution not verified)"
        assert kept.tags == ("agent", "proposed", "unverified")

    def test_it_is_never_shown_as_verified(self, system: System) -> None:
        fix = {
            "outcome": "resolved",
            "problem": "Checkout times out.",
            "solution": "Raise the pool to fifty connections.",
        }
        system.manager.ingest_from_evidence(fix)
        (result,) = self.found(system, "checkout times out")
        assert "Solution, not verified: Raise the pool to fifty connections." in result.content
        assert result.category == "evidence/agent_runs"
        assert self.found(system, "tag:unverified checkout times out")

    def test_no_passage_of_a_long_solution_goes_without_the_mark(self, system: System) -> None:
        steps = "\n".join(f"{number}. Raise the pool of shard {number} to fifty connections." for number in range(200))
        system.manager.ingest_from_evidence({"problem": "Checkout times out.", "solution": steps})
        config = QueryConfig(min_confidence=0, max_chunks_per_document=20)
        found = system.questions.for_reader().query("raise the pool of shard to fifty connections", config)
        assert len(found) > 1
        assert all("not verified" in one.title for one in found)

    @pytest.mark.parametrize("verified", ["yes", 1, None, False])
    def test_only_true_verifies(self, system: System, verified: object) -> None:
        fix = {"outcome": "resolved", "problem": "p q", "solution": "Raise the pool.", "verified": verified}
        (kept,) = system.corpus.catalog.find(system.manager.ingest_from_evidence(fix))
        assert (kept.category, kept.tags[-1]) == ("evidence/agent_runs", "unverified")

    def test_a_verified_one_is_a_remedy(self, system: System) -> None:
        fix = {"problem": "Checkout times out.", "solution": "Raise the pool.", "verified": True}
        (kept,) = system.corpus.catalog.find(system.manager.ingest_from_evidence(fix))
        assert (kept.category, kept.tags) == ("evidence/remediation", ("agent", "resolved"))

    def test_a_verified_outcome_without_a_solution_is_a_run(self, system: System) -> None:
        run = {**RUN, "outcome": "resolved", "verified": True}
        (kept,) = system.corpus.catalog.find(system.manager.ingest_from_evidence(run))
        assert kept.category == "evidence/agent_runs"

    def test_details_alone_are_observations(self, system: System) -> None:
        system.manager.ingest_from_evidence({"node": "web-01", "summary": "heap grows until restart"})
        (result,) = self.found(system, "heap grows until restart")
        assert re.search("summary: heap grows until restart", result.content)
