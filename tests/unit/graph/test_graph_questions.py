"""Graph queries, and the questions that are recognised as such."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.domain.graph import Edge
from opx.domain.scopes import Identity, Scope
from opx.errors import NodeNotFoundError
from opx.graph.knowledge_graph import KnowledgeGraph
from opx.graph.questions.answers import GraphAnswer, name_of
from opx.graph.questions.impact import affected, blast_radius, changes, runbooks_for_cve, what_handles
from opx.graph.questions.recognising import MAX_CANDIDATES, candidates, recognised, since_when
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.fakes import WordsEmbedder
from tests.support.graph_world import ACME, NOW, an_edge, shop, write_statements

DAY_AGO = "2031-05-11T09:00:00Z"


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    home: Path = tmp_path_factory.mktemp("shop")
    with bootstrap(Settings(home=str(home)), clock=lambda: NOW, embedder=WordsEmbedder()) as services:
        shop(services)
        write_statements(
            services,
            "acme's",
            an_edge("service:checkout", "depends_on", "service:acme-only"),
            an_edge("change:chg-acme", "affects", "service:acme-only", "2031-05-12T08:50:00Z"),
            scope=ACME,
        )
        yield services


@pytest.fixture(scope="module")
def graph(services: System) -> KnowledgeGraph:
    return services.graph.seen_by(Identity())


def keys(answer: GraphAnswer) -> list[str]:
    return [row.key for row in answer.rows]


def steps(path: tuple[Edge, ...]) -> list[str]:
    return [f"{edge.source} {edge.edge_type} {edge.target}" for edge in path]


class TestChanges:
    def test_upstream_are_those_of_dependencies_the_newest_first(self, graph: KnowledgeGraph) -> None:
        found = changes(graph, "service:checkout", since=DAY_AGO)
        assert keys(found) == ["commit:9f3c21ab7d01", "change:chg-1", "change:chg-2"]

    def test_come_with_the_path_and_its_evidence(self, graph: KnowledgeGraph) -> None:
        row = changes(graph, "service:checkout", since=DAY_AGO).rows[2]
        assert steps(row.path) == [
            "service:checkout depends_on service:payments",
            "service:payments depends_on service:vault",
            "change:chg-2 affects service:vault",
        ]
        assert all(edge.evidence_chunk_ids for edge in row.path)
        assert row.at == "2031-05-11T10:00:00Z"

    def test_of_the_node_itself_are_not_upstream_even_in_a_cycle(self, graph: KnowledgeGraph) -> None:
        assert "change:chg-4" not in keys(changes(graph, "service:checkout"))

    def test_without_a_time_are_all_of_them(self, graph: KnowledgeGraph) -> None:
        assert "change:chg-3" in keys(changes(graph, "service:checkout"))

    def test_one_hop_away_only(self, graph: KnowledgeGraph) -> None:
        assert "change:chg-2" not in keys(changes(graph, "service:checkout", hops=1))

    def test_until_a_time_leaves_out_later_ones(self, graph: KnowledgeGraph) -> None:
        found = changes(graph, "service:checkout", since=DAY_AGO, until="2031-05-12T06:00:00Z")
        assert keys(found) == ["change:chg-1", "change:chg-2"]

    def test_downstream_are_those_of_dependents(self, graph: KnowledgeGraph) -> None:
        assert "change:chg-4" in keys(changes(graph, "service:orders", upstream=False))

    def test_of_another_client_are_invisible(self, services: System, graph: KnowledgeGraph) -> None:
        assert "change:chg-acme" not in keys(changes(graph, "service:checkout"))
        theirs = services.graph.seen_by(Identity("acme"))
        assert keys(changes(theirs, "service:checkout"))[0] == "change:chg-acme"

    def test_of_an_unknown_node_are_refused(self, graph: KnowledgeGraph) -> None:
        with pytest.raises(NodeNotFoundError):
            changes(graph, "service:acme-only")


class TestVulnerabilities:
    def test_affect_services_with_a_version_in_range_or_an_unknown_one(self, graph: KnowledgeGraph) -> None:
        found = affected(graph, "CVE:CVE-2031-1002")
        assert keys(found) == ["service:orders", "service:loyalty"]
        assert [row.values["certain"] for row in found.rows] == [True, False]
        assert found.rows[0].values["version"] == "14.2"

    def test_affect_services_with_an_affected_version_among_others(self, services: System) -> None:
        write_statements(
            services,
            "two versions",
            an_edge("cve:cve-2031-9", "affects", "product:fernweb", versions="<1.25"),
            an_edge("service:both", "runs", "product:fernweb", version="1.26.0, 1.20.0"),
            an_edge("service:new", "runs", "product:fernweb", version="1.26.0, 1.27.0"),
            scope=Scope("fern"),
        )
        assert keys(affected(services.graph.seen_by(Identity("fern")), "cve:cve-2031-9")) == ["service:both"]

    def test_affect_services_with_an_affected_version_in_another_document(self, services: System) -> None:
        affects = an_edge("cve:cve-2031-8", "affects", "product:tallyd", versions="<1.25")
        write_statements(services, "advisory of tallyd", affects, scope=Scope("tally"))
        for place, version in (("production", "1.26.0"), ("staging", "1.20.0")):
            runs = an_edge("service:both", "runs", "product:tallyd", version=version)
            write_statements(services, f"{place} of tallyd", runs, scope=Scope("tally"))
        (row,) = affected(services.graph.seen_by(Identity("tally")), "cve:cve-2031-8").rows
        assert (row.key, set(str(row.values["version"]).split(", "))) == ("service:both", {"1.26.0", "1.20.0"})

    def test_runbooks_are_those_about_these_services(self, graph: KnowledgeGraph) -> None:
        found = runbooks_for_cve(graph, "cve:cve-2031-1002")
        assert keys(found) == ["runbook:backlog"]
        assert steps(found.rows[0].path) == [
            "cve:cve-2031-1002 affects product:brinedb",
            "service:orders runs product:brinedb",
            "runbook:backlog documents service:orders",
        ]
        assert "no runbook for loyalty" in found.explanation


class TestSurroundings:
    def test_an_alert_is_handled_by_its_runbook(self, graph: KnowledgeGraph) -> None:
        assert keys(what_handles(graph, "alert:BacklogAgeHigh")) == ["runbook:backlog"]

    def test_a_firing_is_handled_as_its_alert_is(self, graph: KnowledgeGraph) -> None:
        row = what_handles(graph, "alert_event:2").rows[0]
        assert (row.key, len(row.path)) == ("runbook:backlog", 2)

    def test_an_alert_without_a_runbook_has_none(self, graph: KnowledgeGraph) -> None:
        assert what_handles(graph, "alert:vaultsealed").explanation == "no runbook for alert vaultsealed"

    def test_a_failure_affects_all_dependents(self, graph: KnowledgeGraph) -> None:
        found = blast_radius(graph, "service:vault")
        assert keys(found) == ["service:payments", "service:checkout"]
        assert [row.values["distance"] for row in found.rows] == [1, 2]


class TestRecognising:
    @pytest.mark.parametrize(
        ("text", "question"),
        [
            ("what changed upstream of checkout in the last day?", "what changed upstream of service:checkout"),
            ("What was deployed to anything checkout depends on today", "what changed upstream of service:checkout"),
            ("recent changes in the dependencies of checkout?", "what changed upstream of service:checkout"),
            ("what changed downstream of service:orders", "what changed downstream of service:orders"),
            ("which runbooks cover services affected by CVE-2031-1002?", "runbooks for CVE-2031-1002"),
            ("are we affected by cve-2031-1002", "what CVE-2031-1002 affects"),
            ("Which services run a version vulnerable to CVE-2031-1002?", "what CVE-2031-1002 affects"),
            ("what handles BacklogAgeHigh?", "what handles alert:backlogagehigh"),
            ("which runbook is for BacklogAgeHigh", "what handles alert:backlogagehigh"),
            ("BacklogAgeHigh is firing, what should I do?", "what handles alert:backlogagehigh"),
            ("what is the blast radius of vault", "what depends on service:vault"),
            ("which services depend on vault?", "what depends on service:vault"),
            ("What breaks if payments goes down?", "what depends on service:payments"),
            ("which alerts have no runbook?", "alerts without a runbook"),
            ("alerts without runbooks", "alerts without a runbook"),
            ("Which runbooks never fire?", "runbooks whose alerts never fired"),
            ("are there unused runbooks", "runbooks whose alerts never fired"),
            ("services that have no runbook", "services without a runbook"),
        ],
    )
    def test_phrasings_of_the_same_question(self, graph: KnowledgeGraph, text: str, question: str) -> None:
        found = recognised(graph, text, now=NOW)
        assert found is not None
        assert found.question == question

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "checkout is slow",
            "how do I change the timeout of checkout?",
            "what changed upstream of a service that nobody knows",
            "which runbooks cover services affected by CVE-2031-9999?",
            "the kernel depends on the boot loader",
            "restart payments when it goes down",
            "runbook for kafka consumer lag",
            "what changed upstream of checkout? " + "x" * 400,
        ],
    )
    def test_other_questions_are_left_to_search(self, graph: KnowledgeGraph, text: str) -> None:
        assert recognised(graph, text, now=NOW) is None

    def test_the_time_in_the_question_bounds_the_answer(self, graph: KnowledgeGraph) -> None:
        found = recognised(graph, "what changed upstream of checkout in the last 4 hours?", now=NOW)
        assert found is not None
        assert keys(found) == ["commit:9f3c21ab7d01", "change:chg-1"]
        assert "since 2031-05-12T05:00:00Z" in found.explanation

    def test_names_of_another_client_are_not_recognised(self, graph: KnowledgeGraph) -> None:
        assert recognised(graph, "what changed upstream of acme-only?", now=NOW) is None


@pytest.mark.parametrize(
    ("text", "since"),
    [
        ("in the last day", DAY_AGO),
        ("within the last 24 hours", DAY_AGO),
        ("past 2 weeks", "2031-04-28T09:00:00Z"),
        ("last 90m", "2031-05-12T07:30:00Z"),
        ("three days ago", "2031-05-09T09:00:00Z"),
        ("since yesterday", "2031-05-11T00:00:00Z"),
        ("today", "2031-05-12T00:00:00Z"),
        ("this week", "2031-05-12T00:00:00Z"),
        ("since 2031-5-1", "2031-05-01T00:00:00Z"),
        ("since 2031-05-01T08:30:00Z", "2031-05-01T08:30:00Z"),
        ("since 2031-13-77", ""),
        ("the last straw", ""),
        ("last 9999 months", "1970-01-01T00:00:00Z"),
    ],
)
def test_times_in_questions(text: str, since: str) -> None:
    assert since_when(f"what changed {text}?", NOW) == since


class TestNaming:
    def test_of_references_codes_and_names_come_first(self) -> None:
        found = candidates("Did team:Keel see INC-31, CVE-2031-1002 or KubePodCrashLooping on freight desk?")
        assert found[:3] == ["team:keel", "incident:inc-31", "cve:cve-2031-1002"]
        assert {"alert:kubepodcrashlooping", "service:freight-desk"} < set(found)

    def test_is_bounded(self) -> None:
        assert len(candidates(" ".join(f"word{n}" for n in range(5000)))) == MAX_CANDIDATES

    @pytest.mark.parametrize("text", ["", "::: ???", "\ud800", "a:b:" * 3000, "https://example.org/x"])
    def test_of_any_string_raises_nothing(self, text: str) -> None:
        assert all(":" in key for key in candidates(text))


def test_answers_survive_the_wire(graph: KnowledgeGraph) -> None:
    found = affected(graph, "cve:cve-2031-1002")
    assert GraphAnswer.from_json(found.to_json()).to_json() == found.to_json()


def test_references_in_words() -> None:
    assert [name_of(key) for key in ("service:checkout", "cve:cve-2031-1", "change:chg-1", "alert_event:2")] == [
        "checkout",
        "CVE-2031-1",
        "change chg-1",
        "alert event 2",
    ]
