"""Outcomes of returned documents: recording, bounded effects on scores, and warnings at the same steps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from opx.domain.documents import DocumentKey
from opx.domain.outcomes import LOWEST, Counted, Counts, OutcomeReport, OutcomeResult, OutcomeScore, Tally
from opx.domain.queries import QueryConfig, SearchMode
from opx.domain.record import replace
from opx.domain.results import Answer
from opx.domain.scopes import Identity, Scope
from opx.errors import (
    ClientRemovedError,
    DocumentNotFoundError,
    InvalidInputError,
    ReceiptNotFoundError,
    StoreUnavailableError,
)
from opx.ingestion.corpus.catalog import Catalog
from opx.learning.experience import LearnedExperience
from opx.learning.outcome_store import KnownScopes
from opx.learning.warnings import StepWarnings
from opx.operations.system import System
from opx.ports.tables import OUTCOMES
from opx.retrieval.citations import citations
from opx.retrieval.hybrid import FusedHit
from opx.retrieval.judging import NOT_READ, Judged
from opx.retrieval.query import KnowledgeQuery
from opx.retrieval.receipts import Receipt, ReplayVerdict, replay
from opx.retrieval.routing import in_order
from tests.support.agent_calls import DISK, DISK_TITLE, a_system, id_of
from tests.support.builders import an_entry

ANYTHING = QueryConfig(min_confidence=0, categories=("runbooks/procedures",))
SHOP, DEPOT, STRANGER = Identity("acme", "shop", "ann"), Identity("acme", "depot"), Identity("other", "shop")
DNS = "documents/runbooks/dns.md"
LONG = "documents/runbooks/long.md"
STEP = "Delete the rotated logs of the application servers"
CORPUS = {
    DISK: f"# {DISK_TITLE}\n\nFind the biggest directories with du. Delete rotated logs. Grow the volume.",
    "documents/runbooks/disk2.md": "# Disk full on database hosts\n\nFind the biggest tables. Vacuum them. Grow the volume.",
    LONG: f"# Volumes\n\nAbout volumes.\n\n## Repair\n\n- {STEP}.\n- Grow the volume.\n\n### Afterwards\n\nWrite it down.",
    DNS: "# DNS lookups time out\n\nCheck the resolver and its forwarders.",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def system(home: Path) -> Iterator[System]:
    with a_system(home, CORPUS) as services:
        yield services


@pytest.fixture
def services(system: System) -> Iterator[System]:
    """Without outcomes and warnings of the tests before."""
    yield system
    table = system.tables.table(OUTCOMES)
    from opx.learning.outcome_store import rows_of

    for scope in ("global", "client:acme", "client:other"):
        for row in rows_of(table, scope):
            table.delete({"place": row["place"], "entry": row["entry"]})
    for name in ("known_outcomes", "outcome_store", "warnings", "learnt", "experience"):
        system.learning.__dict__.pop(name, None)


def ask(services: System, query: str = DISK_TITLE, identity: Identity = SHOP) -> Answer:
    return services.questions.search(identity).answer(query, ANYTHING)


def record(
    services: System, result: str, times: int = 1, key: str = DISK, identity: Identity = SHOP, **more: Any
) -> OutcomeReport:
    """Records an outcome of a returned document `times` times."""
    receipt, document = ask(services, "volume full", identity).receipt_id, id_of(services, key)
    outcomes = services.learning.outcomes(identity)
    return [outcomes.record(receipt, document, result, **more, occurrence=str(n)) for n in range(times)][-1]


def a_hit(content: str) -> FusedHit:
    return FusedHit(an_entry(content).indexed, 1.0, None, None)


def take_out(services: System, key: str) -> None:
    services.manager.delete_object(key)
    list(services.manager.work())


def ranks(answer: Answer) -> list[str]:
    return [result.document_id for result in answer.results]


def of(answer: Answer, document_id: str) -> Any:
    return next(result for result in answer.results if result.document_id == document_id)


class TestRecording:
    def test_it_counts_for_the_whole_client(self, services: System) -> None:
        report = record(services, "resolved", 2)
        assert (report.counted, report.standing.tally.now) == (Counted.NEW, Counts(resolved=2))
        found = services.learning.outcomes(DEPOT).standing(id_of(services, DISK))
        assert (found.tally.now.resolved, found.explanation) == (2, "2 of 2 resolved, too few to count")
        assert services.learning.outcomes(STRANGER).standing(id_of(services, DISK)).explanation == "no outcome was recorded"

    def test_of_an_answer_and_a_document_there_is_one_outcome(self, services: System) -> None:
        receipt, document = ask(services).receipt_id, id_of(services, DISK)
        outcomes = services.learning.outcomes(SHOP)
        found = [outcomes.record(receipt, document, result).counted for result in ("resolved", "resolved", "no_effect")]
        assert found == [Counted.NEW, Counted.KNOWN, Counted.CORRECTED]
        assert outcomes.record(receipt, document, "resolved", occurrence="next day").counted is Counted.NEW
        assert outcomes.standing(document).tally.now == Counts(resolved=1, no_effect=1)

    def test_all_fields_are_stored_without_secrets(self, services: System) -> None:
        record(
            services,
            "resolved",
            step="du -sh\x00 /var",
            incident="INC-7",
            note="it was postgres://app:Xk29fLq8Zp31@db/x\n",
        )
        [outcome] = services.learning.outcomes(DEPOT).standing(id_of(services, DISK)).latest
        assert (outcome.step, outcome.incident, outcome.principal) == ("du -sh\ufffd /var", "INC-7", "ann")
        assert "Xk29fLq8Zp31" not in outcome.note

    @pytest.mark.parametrize("name", ["Repair", "repair", "AFTERWARDS"])
    def test_a_section_is_meant_by_its_headings(self, services: System, name: str) -> None:
        report = record(services, "no_effect", key=LONG, section=name)
        assert report.section in ("Repair", "Repair > Afterwards")
        assert list(report.standing.sections) == [report.section]

    def test_a_document_is_meant_by_the_beginning_of_its_id(self, services: System) -> None:
        document = id_of(services, DISK)
        assert (
            services.learning.outcomes(SHOP)
            .record(ask(services).receipt_id, document[:12].upper(), "resolved")
            .document_id
            == document
        )

    def test_a_version_that_was_replaced_meanwhile_counts_as_an_earlier_one(self, services: System) -> None:
        key = "documents/runbooks/changing.md"
        services.store.put(key, b"# Changing volume\n\nGrow the volume at night.")
        list(services.manager.work())
        receipt, old = ask(services, "changing volume").receipt_id, id_of(services, key)
        services.store.put(key, b"# Changing volume\n\nGrow the volume at noon.")
        list(services.manager.work())
        services.learning.outcomes(SHOP).record(receipt, old, "resolved")
        assert services.learning.outcomes(SHOP).standing(id_of(services, key)).tally == Tally(
            Counts(), Counts(resolved=1)
        )
        [shown] = [one for one in ask(services, "changing volume").results if one.document_id == id_of(services, key)]
        assert "1 of earlier versions" in shown.metadata["outcome"]["text"]
        take_out(services, key)

    def test_the_same_text_under_another_key_is_the_same_document(self, services: System) -> None:
        copy = "clients/acme/documents/runbooks/disk-copy.md"
        services.store.put(copy, CORPUS[DISK].encode())
        list(services.manager.work())
        assert id_of(services, copy) == id_of(services, DISK)
        record(services, "resolved", 5)
        keys = [DocumentKey(Scope(), DISK).id, DocumentKey(Scope("acme"), "documents/runbooks/disk-copy.md").id]
        heads = services.learning.outcome_store.heads(["client:acme"], keys)
        assert [head.tally.now.resolved for _, _, head in heads] == [5, 5]
        take_out(services, copy)


class TestShortNames:
    def test_a_receipt_is_meant_by_its_beginning_and_counted_as_the_whole(self, services: System) -> None:
        receipt, outcomes = ask(services).receipt_id, services.learning.outcomes(SHOP)
        first = outcomes.record(receipt, id_of(services, DISK), "resolved")
        again = outcomes.record(receipt[:8].upper(), id_of(services, DISK), "resolved")
        assert (again.counted, again.outcome_id) == (Counted.KNOWN, first.outcome_id)

    def test_fewer_than_six_digits_are_too_few(self, services: System) -> None:
        receipt = ask(services).receipt_id
        with pytest.raises(ReceiptNotFoundError):
            services.learning.outcomes(SHOP).record(receipt[:5], "", "resolved")

    def test_a_beginning_of_several_receipts_is_refused_with_a_list(
        self, services: System, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ids = iter(["abcdef" + "0" * 26, "abcdef" + "1" * 26])
        monkeypatch.setattr(services.records.audit, "_new_id", lambda: next(ids))
        receipts = [ask(services).receipt_id, ask(services).receipt_id]
        with pytest.raises(InvalidInputError, match="abcdef is the beginning of 2 receipts") as caught:
            services.learning.outcomes(SHOP).record("abcdef", "", "resolved")
        assert all(receipt in str(caught.value) for receipt in receipts)

    def test_last_is_the_newest_answer_to_the_same_principal(self, services: System) -> None:
        mine = ask(services, "volume full")
        ask(services, identity=replace(SHOP, principal="bob"))
        report = services.learning.outcomes(SHOP).record("last", "", "resolved")
        assert report.document_id == ranks(mine)[0]
        again = services.learning.outcomes(SHOP).record(mine.receipt_id, ranks(mine)[0], "resolved")
        assert again.counted is Counted.KNOWN

    @pytest.mark.parametrize(
        "identity", [Identity("acme", "new", "ann"), Identity("new", "shop", "ann"), Identity("acme")]
    )
    @pytest.mark.parametrize("digits", [0, 6, 12, 32])
    def test_neither_names_an_answer_of_another_scope(self, services: System, identity: Identity, digits: int) -> None:
        receipt = ask(services).receipt_id
        with pytest.raises(ReceiptNotFoundError):
            services.learning.outcomes(identity).record(receipt[:digits] or "last", "", "resolved")

    def test_a_document_is_meant_by_its_rank_and_the_first_by_nothing(self, services: System) -> None:
        answer, outcomes = ask(services, "volume full"), services.learning.outcomes(SHOP)
        shown = list(dict.fromkeys(ranks(answer)))
        for name, meant in (("", shown[0]), ("1", shown[0]), ("2", shown[1])):
            assert outcomes.record(answer.receipt_id, name, "resolved").document_id == meant


class TestRefusals:
    @pytest.mark.parametrize("receipt", ["", "nonsense", "#scopes client:acme/project:shop", "r" * 64])
    def test_unknown_receipt(self, services: System, receipt: str) -> None:
        with pytest.raises(ReceiptNotFoundError, match="opx audit"):
            services.learning.outcomes(SHOP).record(receipt, id_of(services, DISK), "resolved")

    @pytest.mark.parametrize("identity", [DEPOT, STRANGER, Identity("acme")])
    def test_receipt_of_somebody_else_is_as_unknown(self, services: System, identity: Identity) -> None:
        with pytest.raises(ReceiptNotFoundError):
            services.learning.outcomes(identity).record(ask(services).receipt_id, id_of(services, DISK), "resolved")

    @pytest.mark.parametrize("document", ["0", "99", "abc", "0" * 32, "%"])
    def test_document_that_was_not_returned(self, services: System, document: str) -> None:
        answer = ask(services)
        with pytest.raises(InvalidInputError, match=f"it has.*{answer.results[0].document_id[:12]}"):
            services.learning.outcomes(SHOP).record(answer.receipt_id, document, "resolved")

    def test_document_of_an_answer_without_any(self, services: System) -> None:
        answer = services.questions.search(SHOP).answer("disk", replace(ANYTHING, categories=("security/cve",)))
        with pytest.raises(InvalidInputError, match="without results"):
            services.learning.outcomes(SHOP).record(answer.receipt_id, id_of(services, DISK), "resolved")

    def test_section_that_the_document_does_not_have(self, services: System) -> None:
        with pytest.raises(InvalidInputError, match=r"no section 'Rollback'; there are: .*Repair"):
            record(services, "resolved", key=LONG, section="Rollback")

    @pytest.mark.parametrize(
        ("named", "message"),
        [
            ({"result": "worse"}, "unknown result 'worse'; allowed: resolved, no_effect, made_worse"),
            ({"step": "x" * 1001}, "step may have 1,000 characters, not 1,001"),
            ({"incident": 7}, "incident must be a string"),
        ],
    )
    def test_invalid_fields(self, services: System, named: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            services.learning.outcomes(SHOP).record("r", "d", **{"result": "resolved", **named})

    def test_document_that_is_gone(self, services: System) -> None:
        key = "clients/acme/projects/shop/documents/runbooks/gone.md"
        services.store.put(key, b"# Gone volume\n\nGrow it.")
        list(services.manager.work())
        receipt, document = ask(services, "gone volume").receipt_id, id_of(services, key)
        outcomes = services.learning.outcomes(SHOP)
        outcomes._sight = replace(outcomes._sight, catalog=cast("Catalog", NoDocuments()))
        with pytest.raises(DocumentNotFoundError, match="gone"):
            outcomes.record(receipt, document, "resolved")
        take_out(services, key)

    def test_client_that_was_removed_meanwhile(self, services: System) -> None:
        outcomes = services.learning.outcomes(SHOP)
        outcomes._sight = replace(outcomes._sight, admits=lambda _: False)
        with pytest.raises(ClientRemovedError, match="acme"):
            outcomes.record(ask(services).receipt_id, id_of(services, DISK), "resolved")

    def test_without_an_audit_log(self, services: System) -> None:
        outcomes = services.learning.outcomes(SHOP)
        outcomes._sight = replace(outcomes._sight, audited=None)
        with pytest.raises(InvalidInputError, match="OPX_AUDIT_DAYS"):
            outcomes.record("r", id_of(services, DISK), "resolved")


class NoDocuments:
    def find(self, _: str) -> Iterator[Any]:
        return iter(())


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
        [best] = services.questions.search(SHOP).answer(CORPUS[DISK], sure).results
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

    def test_what_is_unlikely_stays_behind_what_is_likely(self, services: System) -> None:
        answer = ask(services)
        record(services, "resolved", 12, key=DNS)
        after = ask(services)
        unlikely = [result.confidence < 0.5 for result in after.results]
        assert unlikely == sorted(unlikely)
        assert ranks(after)[0] == ranks(answer)[0]


class TestReads:
    def test_queries_read_once_and_not_at_all_without_outcomes(self, services: System) -> None:
        table = Counting(services.tables.table(OUTCOMES))
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
        answer = a_query(services, failing).answer(DISK_TITLE, ANYTHING)
        assert answer.results == before.results
        assert (answer.partial, answer.notes) == (True, (NOT_READ,))


class Counting:
    """A table, and how often it was read."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        self.reads += name in ("get", "get_many", "query")
        return getattr(self._table, name)


def _reads(table: Counting, query: KnowledgeQuery) -> int:
    before = table.reads
    assert query.answer(DISK_TITLE, ANYTHING).results
    return table.reads - before


def a_query(services: System, experience: LearnedExperience) -> KnowledgeQuery:
    reader = services.corpus.projects.reader(SHOP)
    return KnowledgeQuery(
        index=services.indexing.search_engine,
        embedder=services.indexing.query_embedder,
        knowledge=services.installation.knowledge,
        reader=reader,
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
    found = services.questions.search(SHOP).answer(query, config).receipt
    assert found
    return found


class TestNegativeKnowledge:
    def test_what_made_it_worse_is_shown_before_the_step_in_the_next_project(self, services: System) -> None:
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
        assert result.warnings[0]["text"] == f"tried in INC-7, made things worse: {STEP} (disk of the shop was full)"
        text = citations([result])
        assert text.index("[Warning: tried in INC-7") < text.index(f"- {STEP}.")
        assert not any(one.warnings for one in ask(services, identity=STRANGER).results)

    def test_a_warning_takes_nothing_from_the_page_that_it_is_about(self, services: System) -> None:
        who = Identity("acme", "followed")

        def found(mode: SearchMode) -> Answer:
            everywhere = QueryConfig(min_confidence=0, categories=None, mode=mode)
            return services.questions.search(who).answer("Volumes", everywhere)

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
