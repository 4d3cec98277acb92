"""Research and thorough searches with a chat model that is slow, talkative, wrong or broken: it costs its own part, and what
the searches find is returned."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.doubles.chat_completions import KEY, ChatCompletionsDouble
from tests.doubles.http_double import Response
from tests.support.cli_support import ROOT, Opx

TOPIC = "the queue worker stalls"
PAGES = {
    "stall.md": "# Queue worker stalls\n\nThe queue worker stalls when its lease is lost. Restart the queue worker.\n",
    "disk.md": "# Disk full\n\nThe disk of the database is full. Delete the archive logs.\n",
    "tea.md": "# Tea kitchen\n\nThe kettle is on the left.\n",
}
RUNBOOKS = ROOT / "corpus" / "documents" / "runbooks"
JUNK = [{"query": f"banana bread number{n}", "part": f"baking {n}", "why": "cake"} for n in range(50)]
Judge = Callable[[int], list[Any]]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Opx:
    opx = Opx(tmp_path_factory.mktemp("moods"))
    runbooks = {page.name: page.read_text() for page in RUNBOOKS.iterdir() if page.name.startswith(("eks-", "pod-"))}
    for name, text in (PAGES | runbooks).items():
        opx.write(name, text)
    assert opx("ingest", opx.folder / "docs").exit_code == 0
    assert opx("secret", "set", "router", stdin=KEY + "\n").exit_code == 0
    return opx


class OpxWithModel:
    """`opx` with the chat model."""

    def __init__(self, opx: Opx, double: ChatCompletionsDouble) -> None:
        self._opx = opx
        self.double = double

    def __call__(self, *line: str, **environ: str) -> dict[str, Any]:
        """The reply of a command that finds something."""
        chat = {
            "OPX_CHAT_MODEL": "m",
            "OPX_CHAT_URL": self.double.endpoint + "/v1",
            "OPX_CHAT_SECRET": "router",
            "OPX_RERANK_SECONDS": "20",
        }
        result = self._opx(*line, "--json", **{**chat, **environ})
        assert result.exit_code == 0, result.output
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    def research(self, *more: str, **environ: str) -> dict[str, Any]:
        return self("research", TOPIC, *more, **environ)

    def search(self) -> dict[str, Any]:
        return self("search", TOPIC, "--mode", "thorough", "--min-confidence", "0", OPX_RERANKER="chat")

    def judging(self, written: Callable[[str], str], judge: Judge) -> None:
        """Has the model write its verdicts so."""
        self.double.model.thought = lambda _system, data: written(
            json.dumps({"verdicts": judge(len(json.loads(data)["documents"]))})
        )


@pytest.fixture
def opx(filled: Opx, model: ChatCompletionsDouble) -> OpxWithModel:
    return OpxWithModel(filled, model)


def titles(report: Mapping[str, Any]) -> list[str]:
    return [finding["title"] for finding in report["findings"]]


def searched(report: Mapping[str, Any]) -> list[str]:
    return [step["text"] for step in report["trace"] if step["kind"] == "search"]


class TestSlow:
    def test_a_reader_that_hangs_has_the_time_that_is_left_and_the_findings_are_partial(
        self, opx: OpxWithModel
    ) -> None:
        opx.double.inject(Response(200, {}, delay=30), times=20)
        reader = {"OPX_RERANKER": "chat", "OPX_RERANK_SECONDS": "5", "OPX_RESEARCH_PLANNER": "rules"}
        report = opx.research("--iterations", "1", OPX_RESEARCH_SECONDS="4", **reader)
        assert titles(report) == ["Queue worker stalls"]
        assert report["partial"]
        assert any(note.startswith("not reranked by chat:openai:m (") for note in report["notes"])

    def test_a_planner_that_hangs_leaves_the_searches_their_time(self, opx: OpxWithModel) -> None:
        opx.double.inject(Response(200, {}, delay=30), times=20)
        started = time.monotonic()
        report = opx.research("--iterations", "1", OPX_RESEARCH_SECONDS="8", OPX_RERANKER="chat")
        assert time.monotonic() - started < 20
        assert (titles(report), report["planner"]) == (["Queue worker stalls"], "rules")


class TestPlans:
    @pytest.mark.parametrize(
        "plan",
        [
            {"queries": JUNK},
            {"queries": JUNK[:1] * 50},
            {"queries": []},
            {"queries": [None, 7, {"query": 5}]},
            "I would search for the queue worker.",
            "",
            "[1, 2]",
        ],
        ids=["junk", "one again and again", "none", "wrong types", "prose", "empty", "no object"],
    )
    def test_a_bad_plan_loses_no_finding_and_the_topic_is_searched_first(self, opx: OpxWithModel, plan: object) -> None:
        opx.double.model.thought = lambda _system, _data: plan
        report = opx.research()
        assert titles(report) == ["Queue worker stalls"]
        assert searched(report)[0] == TOPIC

    def test_what_the_topics_own_words_miss_is_found_by_rules_beside_a_bad_plan(self, opx: OpxWithModel) -> None:
        topic = "why do pods keep restarting"
        by_rules = opx("research", topic, OPX_RESEARCH_PLANNER="rules")
        first = next(step for step in by_rules["trace"] if step["kind"] == "search")
        assert (first["text"], first["results"]) == (topic, 0)
        opx.double.model.thought = lambda _system, _data: {"queries": JUNK}
        assert set(titles(opx("research", topic))) >= set(titles(by_rules))

    @pytest.mark.parametrize(
        "response",
        [Response(200, "<html>Bad gateway</html>"), Response(500), Response(429), Response(hang_up=True)],
        ids=["html", "broken", "busy", "hangs up"],
    )
    def test_a_service_that_fails_is_replaced_by_rules(self, opx: OpxWithModel, response: Response) -> None:
        opx.double.inject(response, times=20)
        report = opx.research()
        assert (titles(report), report["planner"]) == (["Queue worker stalls"], "rules")
        assert "rules did" in report["notes"][0]

    @pytest.mark.parametrize("before", ["Sure! Here is the plan: ", '<think>Maybe {"queries": []}?</think>\n'])
    def test_a_talkative_plan_is_read(self, opx: OpxWithModel, before: str) -> None:
        plan = {"queries": [{"query": "lease of the queue worker is lost", "part": "lease", "why": "cause"}]}
        opx.double.model.thought = lambda _system, _data: before + json.dumps(plan)
        report = opx.research()
        assert report["planner"] == "chat:openai:m"
        assert searched(report)[:2] == [TOPIC, "lease of the queue worker is lost"]


def confidences(answer: Mapping[str, Any], judged: str) -> dict[str, float]:
    """Confidence by title of the results that were judged so."""
    results = [one for one in answer["results"] if one["judged"] == judged]
    return {one["metadata"]["title"]: one["scores"]["confidence"] for one in results}


WRITTEN: Mapping[str, Callable[[str], str]] = {
    "bare": lambda text: text,
    "fenced": lambda text: f"```json\n{text}\n```",
    "talkative": lambda text: f"Sure! Here is the JSON {{as you wanted it}}:\n{text}\nLet me know {{more}}.",
    "talkative and fenced": lambda text: f"Here you go:\n```\n{text}\n```\nDone.",
    "thinking": lambda text: '<think>Is {"verdicts": [{"id": 0, "verdict": "no", "line": 0}]} right?</think>' + text,
    "object before": lambda text: f'{{}} {{"note": "the answer follows"}} {text}',
    "twice": lambda text: f"{text}\n{text}",
}


def each(verdict: str, count: int) -> list[Any]:
    return [{"id": at, "verdict": verdict, "line": 0} for at in range(count)]


class TestReadings:
    @pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN.keys())
    def test_verdicts_are_found_in_what_is_written_around_them(
        self, opx: OpxWithModel, written: Callable[[str], str]
    ) -> None:
        opx.judging(written, lambda count: each("helps", count))
        found = opx.search()
        assert {one["judged"] for one in found["results"]} == {"read"}
        assert (found["rankedBy"], found["notes"]) == ("chat:openai:m", [])

    @pytest.mark.parametrize(
        ("judge", "unread"),
        [
            (lambda count: each("no", count)[1:], 1),
            (lambda count: [*each("no", count), {"id": count, "verdict": "answers", "line": 1}], 0),
            (lambda count: [*each("no", count), {"id": -1, "verdict": "answers", "line": 1}, 7, None], 0),
            (lambda count: [{"id": "0", "verdict": "no", "line": 0}, *each("no", count)[1:]], 1),
            (lambda count: [{"id": 0, "verdict": "maybe", "line": 0}, *each("no", count)[1:]], 1),
            (lambda count: [{"id": 0, "line": 0}, *each("no", count)[1:]], 1),
            (lambda count: [{"id": 0, "verdict": "answers", "line": 0}, *each("no", count)], 1),
            (lambda count: [*each("no", count), *each("no", count)], 0),
            (lambda count: each("no", count)[:1] * count, 4),
        ],
        ids=[
            "missing",
            "one more",
            "foreign ids",
            "text as id",
            "other word",
            "no verdict",
            "contradiction",
            "twice",
            "one",
        ],
    )
    def test_valid_verdicts_count_and_a_document_without_one_keeps_its_estimate(
        self, opx: OpxWithModel, judge: Judge, unread: int
    ) -> None:
        opx.double.inject(Response(400, {"error": {"message": "no"}}))
        estimated = confidences(opx.search(), "estimated")
        opx.judging(lambda text: text, judge)
        found = opx.search()
        left = confidences(found, "estimated")
        assert len(left) == unread
        assert left.items() <= estimated.items()
        assert found["rankedBy"] == "chat:openai:m"
        assert found["notes"] == [
            f"chat:openai:m gave no valid verdict on {unread} of {len(estimated)} documents: these are estimated"
        ] * bool(unread)

    @pytest.mark.parametrize("text", ["", "{", "<think>" + json.dumps({"verdicts": each("no", 3)}), "<html></html>"])
    def test_without_any_verdict_the_estimates_stand_with_a_note(self, opx: OpxWithModel, text: str) -> None:
        opx.judging(lambda _: text, lambda _: [])
        found = opx.search()
        assert {one["judged"] for one in found["results"]} == {"estimated"}
        [note] = found["notes"]
        assert note.startswith("not reranked by chat:openai:m (")
