"""Outcomes in later answers: bounded effects on scores, receipts, and warnings at the same steps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from opx.domain.documents import DocumentKey
from opx.domain.outcomes import LOWEST, Counts, OutcomeResult, OutcomeScore, Tally
from opx.domain.queries import QueryConfig, SearchMode
from opx.domain.record import replace
from opx.domain.results import Answer
from opx.domain.scopes import Identity, Scope
from opx.errors import StoreUnavailableError
from opx.learning.experience import LearnedExperience
from opx.learning.outcome_store import KnownScopes
from opx.learning.warnings import StepWarnings
from opx.operations.system import System
from opx.ports.tables import OUTCOMES
from opx.retrieval.citations import citations
from opx.retrieval.hybrid import FusedHit
from opx.retrieval.judging import Judged, in_order
from opx.retrieval.query import KnowledgeQuery
from opx.retrieval.receipts import Receipt, ReplayVerdict, replay
from opx.retrieval.stages import NOT_READ
from opx_testing.entries import an_entry
from tests.doubles.hooked_table import CountedReads
from tests.support.agent_calls import DISK, DISK_TITLE, id_of
from tests.support.judging_support import a_fused_hit
from tests.support.outcome_support import (
    ANYTHING,
    CORPUS,
    DEPOT,
    DNS,
    LONG,
    SHOP,
    STEP,
    STRANGER,
    ask,
    ranks,
    record,
)
from tests.support.query_support import a_knowledge_query


def a_hit(content: str) -> FusedHit:
    return a_fused_hit(an_entry(content).indexed)


def of(answer: Answer, document_id: str) -> Any:
    return next(result for result in answer.results if result.document_id == document_id)


class TestRanking:
    def test_without_outcomes_answers_are_as_they_were(self, services: System) -> None:
        with_it = ask(services)
        services.learning.known_outcomes.note("client:acme", "outcomes")
        services.learning.known_outcomes.note("client:acme", "warnings", "mark")
        before = [replace(result, metadata=result.metadata) for result in with_it.results]
        assert list(ask(services).results) == before
        assert all(result.parts and result.parts.outcome is None for result in with_it.results)

    def test_fewer_than_five_change_no_score(self, services: System) -> None:
        before = [result.score for result in ask(services).results]
        record(services, "no_effect", 4)
        after = ask(services)
        assert [result.score for result in after.results] == before
        assert of(after, id_of(services, DISK)).metadata["outcome"]["text"] == "0 of 4 resolved, too few to count"

    def test_enough_move_it_within_bounds_with_an_explanation(self, services: System) -> None:
        document = id_of(services, DISK)
        before = of(ask(services), document)
        record(services, "no_effect", 5)
        after = of(ask(services), document)
        assert after.parts.confidence == before.parts.confidence
        assert LOWEST <= after.score / before.score < 1
        assert after.score == after.parts.final == pytest.approx(before.score * after.parts.outcome)
        assert after.to_json()["scores"]["outcome"] == round(after.parts.outcome, 6)
        assert after.to_json()["metadata"]["outcome"]["noEffect"] == 5

    @pytest.mark.parametrize(("behind", "first"), [(0.75, "good"), (0.6, "bad")])
    def test_neighbours_change_places_and_others_do_not(self, behind: float, first: str) -> None:
        bad = Judged(a_hit("bad"), 0.8, outcome=OutcomeScore(Tally(Counts(made_worse=10**9))))
        good = Judged(a_hit("good"), behind, outcome=OutcomeScore(Tally(Counts(resolved=10**9))))
        ranked = in_order([bad, good])
        assert ranked[0].hit.indexed.chunk.content == first

    def test_another_client_is_not_moved(self, services: System) -> None:
        before = ask(services, identity=STRANGER)
        record(services, "made_worse", 6)
        after = ask(services, identity=STRANGER)
        assert after.results == before.results

    def test_a_score_stays_a_part_of_one(self, services: System) -> None:
        record(services, "resolved", 5)
        sure = QueryConfig(min_confidence=0, categories=("runbooks/procedures",), document_id=id_of(services, DISK))
        [best] = services.questions.for_reader(SHOP).search(CORPUS[DISK], sure).results
        assert best.parts is not None
        assert best.parts.outcome is not None
        assert best.parts.confidence * best.parts.outcome > 1
        assert best.score == best.parts.final == 1.0

    def test_a_section_moves_its_own_passages_alone(self, services: System) -> None:
        record(services, "made_worse", 6, key=LONG, section="Afterwards")
        record(services, "resolved", 40, key=LONG)
        [head] = services.learning.outcome_store.heads(["client:acme"], [DocumentKey(Scope(), LONG).id])
        found = head[2].score_of(("Repair", "Afterwards")), head[2].score_of(("Repair",))
        assert [one.section for one in found] == ["Repair > Afterwards", ""]
        assert found[0].factor < 1 < found[1].factor
        shown = of(ask(services, "volumes"), id_of(services, LONG))
        assert shown.metadata["outcome"]["section"] in ("Repair > Afterwards", "")

    def test_unlikely_results_stay_behind_likely_ones(self, services: System) -> None:
        answer = ask(services)
        record(services, "resolved", 12, key=DNS)
        after = ask(services)
        unlikely = [result.confidence < 0.5 for result in after.results]
        assert unlikely == sorted(unlikely)
        assert ranks(after)[0] == ranks(answer)[0]


class TestReads:
    def test_queries_read_once_and_not_at_all_without_outcomes(self, services: System) -> None:
        table = CountedReads(services.tables.table(OUTCOMES))
        known = KnownScopes(table)
        warnings = StepWarnings(table, known, services.clock)
        experience = LearnedExperience(
            table, known, lambda: warnings, lambda: services.corpus.catalog, lambda: services.learning.learnt
        )
        query = a_query(services, experience)
        assert [_reads(table, query) for _ in range(3)] == [1, 0, 0]
        record(services, "resolved")
        known.note("client:acme", "outcomes")
        assert [_reads(table, query) for _ in range(3)] == [1, 1, 1]

    def test_a_store_that_fails_leaves_the_answer_without(self, services: System) -> None:
        class Failing(LearnedExperience):
            def of(self, *_: Any) -> Any:
                raise StoreUnavailableError("throttled")

        before = ask(services)
        table = services.tables.table(OUTCOMES)
        failing = Failing(
            table,
            services.learning.known_outcomes,
            lambda: services.learning.warnings,
            lambda: services.corpus.catalog,
            lambda: services.learning.learnt,
        )
        answer = a_query(services, failing).search(DISK_TITLE, ANYTHING)
        assert answer.results == before.results
        assert (answer.partial, answer.notes) == (True, (NOT_READ,))


def _reads(table: CountedReads, query: KnowledgeQuery) -> int:
    before = table.reads
    assert query.search(DISK_TITLE, ANYTHING).results
    return table.reads - before


def a_query(services: System, experience: LearnedExperience) -> KnowledgeQuery:
    reader = services.corpus.projects.reader(SHOP)
    return a_knowledge_query(
        services.indexing.search_engine,
        services.indexing.query_embedder,
        services.installation.knowledge,
        reader,
        rules=services.questions.search_rules,
        experience=experience.seen_by(reader.visible),
    )


class TestReceipts:
    def test_outcomes_leave_the_receipt_of_the_same_order_as_it_was(self, services: System) -> None:
        before = ask(services).receipt
        record(services, "resolved", 3)
        after = ask(services).receipt
        assert before
        assert after
        assert "outcomes" not in after
        left_out = {"receiptId", "askedAt", "sha256"}
        assert {n: v for n, v in before.items() if n not in left_out} == {
            n: v for n, v in after.items() if n not in left_out
        }

    def test_a_replay_names_them_as_the_cause(self, services: System) -> None:
        receipt = ask(services).receipt
        record(services, "made_worse", 6)
        found = replay(json.loads(json.dumps(dict(receipt or {}))), lambda q, c: _receipt(services, q, c))
        assert found.verdict is ReplayVerdict.CHANGED
        assert any("outcomes" in cause for cause in found.causes)
        again = replay(json.loads(json.dumps(dict(found.receipt))), lambda q, c: _receipt(services, q, c))
        assert (again.verdict, again.causes) == (ReplayVerdict.SAME, ())


def _receipt(services: System, query: str, config: QueryConfig) -> Receipt:
    found = services.questions.for_reader(SHOP).search(query, config).receipt
    assert found
    return found


class TestNegativeKnowledge:
    def test_warning_about_a_harmful_step_is_shown_before_it_in_the_next_project(self, services: System) -> None:
        who = Identity("acme", "volumes")
        report = record(
            services,
            "made_worse",
            key=LONG,
            step=STEP,
            incident="INC-7",
            note="disk of the shop was full",
            identity=who,
        )
        assert report.warning_id
        assert not of(ask(services, identity=DEPOT), id_of(services, LONG)).warnings
        taken = services.learning.checkpoints(who).process_checkpoint("volumes", "manual")
        assert taken.warnings == 1
        list(services.manager.work())
        result = next(one for one in ask(services, identity=DEPOT).results if one.warnings)
        assert result.document_id == id_of(services, LONG)
        assert result.warnings[0]["text"] == (
            f'tried in INC-7, made things worse: "{STEP}" (a note: "disk of the shop was full")'
        )
        text = citations([result])
        assert text.index("[Warning: tried in INC-7") < text.index(f"- {STEP}.")
        assert not any(one.warnings for one in ask(services, identity=STRANGER).results)

    def test_a_warning_takes_nothing_from_the_page_that_it_is_about(self, services: System) -> None:
        who = Identity("acme", "followed")

        def found(mode: SearchMode) -> Answer:
            everywhere = QueryConfig(min_confidence=0, categories=None, mode=mode)
            return services.questions.for_reader(who).search("Volumes", everywhere)

        modes = (SearchMode.BALANCED, SearchMode.THOROUGH)
        before = [found(mode).results[0] for mode in modes]
        record(services, "made_worse", key=LONG, identity=who, note="Volumes", incident="INC-70")
        services.learning.checkpoints(who).process_checkpoint(who.project_id, "manual")
        for mode, first in zip(modes, before, strict=True):
            results = found(mode).results
            assert first.parts
            assert results[0].parts
            assert (results[0].document_id, len(results[0].warnings)) == (first.document_id, 1)
            # the warning's words count among those of this small index, and so weigh a little in every question
            assert results[0].parts.confidence == pytest.approx(first.parts.confidence, abs=0.06)
            assert "learning/warnings" in [result.category for result in results]

    def test_an_outcome_recorded_twice_is_one_warning_and_of_two_answers_two(self, services: System) -> None:
        document, outcomes = id_of(services, DISK), services.learning.outcomes(SHOP)
        one, other = ask(services).receipt_id, ask(services).receipt_id
        first, second, third = (
            outcomes.record(receipt, document, OutcomeResult.MADE_WORSE, step=step).warning_id
            for receipt, step in ((one, "Grow the volume"), (one, "Grow it"), (other, "Grow the volume"))
        )
        assert first == second
        assert first != third

    def test_a_warning_that_comes_later_is_seen_by_the_next_question(self, services: System) -> None:
        who = Identity("acme", "later")
        for number, step in enumerate(("Look at the resolver and its cache", "Check the resolver and its forwarders")):
            record(services, "made_worse", step=step, key=DNS, identity=who, incident=f"INC-{number}")
            services.learning.checkpoints(who).process_checkpoint("later", "manual")
            list(services.manager.work())
            warned = of(ask(services, "DNS lookups time out"), id_of(services, DNS)).warnings
            assert {name for one in warned for name in one["incidents"]} == {f"INC-{n}" for n in range(number + 1)}

    def test_a_deleted_warning_is_not_shown(self, services: System) -> None:
        who = Identity("acme", "names")
        record(services, "made_worse", step="Check the resolver and its forwarders", key=DNS, identity=who)
        services.learning.checkpoints(who).process_checkpoint("names", "manual")
        list(services.manager.work())
        [shown] = {one["documentId"] for r in ask(services, "DNS lookups time out").results for one in r.warnings}
        services.ingestion.manager_of(Scope("acme")).delete(shown)
        list(services.manager.work())
        assert not any(result.warnings for result in ask(services, "DNS lookups time out").results)
