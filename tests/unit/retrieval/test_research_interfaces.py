"""Research as people and programs ask for it: services, the command, the HTTP API, the wire."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lambdas.retrieve_knowledge.handler import make_handler
from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.domain.scopes import Identity
from opx.errors import InvalidInputError
from opx.operations.registry import Function
from opx.operations.system import System
from opx.retrieval.stages import INDEX_DOWN
from opx.settings import Settings
from opx.system import bootstrap
from opx_web.reports import Finding, ResearchReport, ResearchStep, StepKind, Stopped
from opx_web.research.planners import ChatPlanner, RulePlanner
from opx_web.research.researcher import Researchers
from tests.support.agent_calls import CORPUS, a_system
from tests.support.api_requests import ROUTE, Handler, a_token, call, check_described, refusal
from tests.support.cli_support import Opx
from tests.support.fakes import Measured, function_logs
from tests.support.remote_support import KINDS, opx_at
from tests.support.research_support import a_result

VAULT = "clients/acme/documents/runbooks/vault.md"
TOPIC = "frobnicator grease and the zebra enclosure"
REPORT = ResearchReport(
    topic="disk",
    searches_performed=1,
    findings=(Finding.of(a_result(), ("disk", "disk full")),),
    trace=(
        ResearchStep(1, StepKind.PLAN, "rules", "the first searches", 2, 1),
        ResearchStep(1, StepKind.SEARCH, "disk", "the topic", 1, 1, 0.9, 12.5, "slow", "r-1"),
    ),
    gaps=("cpu",),
    nearest=(a_result("Perhaps.", confidence=0.2),),
    notes=("a note",),
    partial=True,
    stopped_because=Stopped.ITERATIONS,
    planner="rules",
)


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    secret = "# Vault\n\nThe frobnicator of acme needs grease every week.\n"
    with a_system(tmp_path_factory.mktemp("home"), {**CORPUS, VAULT: secret}) as system:
        yield system


@pytest.fixture
def handler(services: System) -> Iterator[Handler]:
    with function_logs():
        yield make_handler(lambda: services)


class TestWire:
    def test_a_report_survives_the_wire(self) -> None:
        assert ResearchReport.from_json(json.loads(json.dumps(REPORT.to_json()))) == REPORT

    def test_names_are_those_that_callers_know(self) -> None:
        found = REPORT.to_json()
        assert (found["topic"], found["searchesPerformed"]) == ("disk", 1)
        finding = found["findings"][0]
        assert (finding["content"], finding["source"]) == ("Delete old logs.", "docs/Disk full.md")
        assert finding["section"] == "Steps"

    def test_it_is_as_it_is_described(self) -> None:
        check_described("research", REPORT.to_json())


class TestServices:
    def test_research_sees_what_its_identity_sees(self, services: System) -> None:
        bounds = QueryConfig(min_confidence=0)

        def documents(identity: Identity) -> str:
            return repr(services.part(Researchers).of(identity).research_topic(TOPIC, 2, bounds))

        assert "of acme" in documents(Identity("acme"))
        assert "of acme" not in documents(Identity("other"))
        assert "of acme" not in documents(Identity())

    def test_searches_are_measured_as_questions_are(self, services: System) -> None:
        measured = Measured()
        report = services.part(Researchers).of(report=measured).research_topic(TOPIC)
        assert measured.counts["Queries"] == report.searches_performed  # type: ignore[index]

    def test_rules_plan_where_there_is_no_model(self, tmp_path: Path) -> None:
        assert isinstance(bootstrap(Settings(home=str(tmp_path))).part(Researchers)._planner, RulePlanner)

    @pytest.mark.parametrize(
        ("planner", "kind"), [("auto", ChatPlanner), ("chat", ChatPlanner), ("rules", RulePlanner)]
    )
    def test_the_settings_choose_the_planner(self, planner: str, kind: type, tmp_path: Path) -> None:
        settings = Settings(home=str(tmp_path), chat_model="m", chat_url="http://127.0.0.1:9", research_planner=planner)
        made = bootstrap(settings)
        assert isinstance(made.part(Researchers)._planner, kind)

    def test_on_aws_it_ends_before_the_api_gives_up(self) -> None:
        with pytest.raises(InvalidInputError, match="OPX_RESEARCH_SECONDS must be at most 25"):
            Settings(backend="aws", research_seconds=26)
        assert Settings(research_seconds=600).research_seconds == 600


class TestHttpApi:
    def test_a_topic_is_researched_for_the_caller(self, handler: Handler) -> None:
        body = {"topic": TOPIC, "maxIterations": 2, "config": {"minConfidence": 0, "maxResults": 3}}
        status, found = call(handler, "research", body=body, caller=a_token("acme"))
        assert status == 200
        assert any("of acme" in finding["content"] for finding in found["findings"])
        assert len(found["findings"]) <= 3
        check_described("research", found)

    def test_others_do_not_find_it(self, handler: Handler) -> None:
        body = {"topic": TOPIC, "config": {"minConfidence": 0}}
        assert "of acme" not in repr(call(handler, "research", body=body, caller=a_token("other")))

    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"topic": " "},
            {"topic": 3},
            {"topic": "x", "maxIterations": 0},
            {"topic": "x", "maxIterations": 6},
            {"topic": "x", "max_iterations": 3},
            {"topic": "x" * 100_001},
            {"topic": "x", "config": {"tiers": ["x"]}},
        ],
    )
    def test_invalid_request_is_refused(self, handler: Handler, body: dict[str, Any]) -> None:
        assert refusal(call(handler, "research", body=body)) == (400, "invalid_argument")

    def test_it_is_a_route_of_the_function_that_reads(self) -> None:
        assert (ROUTE["research"].key, ROUTE["research"].function) == ("POST /research", Function.RETRIEVE)


@pytest.fixture(scope="module", params=KINDS)
def opx(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opx]:
    """A few documents; only read."""
    with pytest.MonkeyPatch.context() as patch, opx_at(request.param, tmp_path_factory.mktemp("opx"), patch) as opx:
        opx.write("runbooks/disk.md", "# Disk full\n\n## Symptoms\n\nThe alert `NodeDiskFull` fires and writes fail.\n")
        opx.write("runbooks/cert.md", "# Certificates\n\n## Renewal\n\nRenew the expired certificate with `renewer`.\n")
        assert opx("ingest", opx.folder / "docs").exit_code == 0
        yield opx


class TestCommand:
    def test_findings_come_with_their_sources_and_what_found_them(self, opx: Opx) -> None:
        result = opx("research", "NodeDiskFull alert and expired certificate", "--min-confidence", "0.01")
        assert result.exit_code == 0, result.output
        assert "docs/runbooks/disk.md  [" in result.stdout
        assert "docs/runbooks/cert.md  [" in result.stdout
        assert "found by: " in result.stdout
        assert "searches by rules" in result.stdout

    def test_the_trace_shows_each_search_and_why(self, opx: Opx) -> None:
        result = opx("research", "NodeDiskFull alert and expired certificate", "--trace")
        lines = result.stdout.splitlines()
        assert any("(plan by rules)" in line and "the first searches" in line for line in lines)
        assert any("expired certificate" in line and line.endswith("a part of the topic") for line in lines)

    def test_json_is_the_report(self, opx: Opx) -> None:
        found = json.loads(opx("research", "disk full", "--json", "--min-confidence", "0.01").stdout)
        assert found["topic"] == "disk full"
        assert found["searchesPerformed"] == len([step for step in found["trace"] if step["kind"] == "search"])

    def test_nothing_good_enough_exits_with_one_and_names_the_closest(self, opx: Opx) -> None:
        result = opx("research", "writes fail", "--min-confidence", "1", "--iterations", "1")
        assert result.exit_code == 1
        assert result.stdout.startswith(
            "Nothing good enough was found.\nNothing good enough for: writes fail\nClosest: Disk full"
        )

    def test_nothing_near_exits_with_one_and_names_nothing(self, opx: Opx) -> None:
        result = opx("research", "quantum llamas", "--min-confidence", "0.5", "--iterations", "1")
        assert result.exit_code == 1
        assert result.stdout.startswith("Nothing good enough was found.\nNothing good enough for: quantum llamas\n")

    @pytest.mark.parametrize("arguments", [("x", "--iterations", "6"), (" ",), ()])
    def test_wrong_usage_exits_with_two(self, opx: Opx, arguments: tuple[str, ...]) -> None:
        assert opx("research", *arguments).exit_code == 2

    def test_an_index_that_is_down_exits_with_two(self, opx: Opx, monkeypatch: pytest.MonkeyPatch) -> None:
        down = replace(REPORT, findings=(), notes=(INDEX_DOWN,), stopped_because=Stopped.UNAVAILABLE)
        monkeypatch.setattr("opx_web.research.researcher.Researcher.research_topic", lambda *_, **__: down)
        result = opx("research", "disk")
        assert result.exit_code == 2
        assert INDEX_DOWN in result.stderr


def test_searches_are_in_the_audit_log_with_receipts_and_not_among_the_gaps(services: System) -> None:
    before = len(list(services.records.audit.records()))
    report = services.part(Researchers).of().research_topic("quantum llamas in orbit", 2)
    receipts = {step.receipt_id for step in report.trace if step.kind is StepKind.SEARCH}
    assert len(list(services.records.audit.records())) == before + report.searches_performed
    assert len(receipts - {""}) == report.searches_performed
    assert report.gaps
    assert not list(services.records.gaps.gaps("global"))
