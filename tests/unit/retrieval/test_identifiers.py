"""Questions with identifiers: documents about one come first, and identifiers without a document are reported absent."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.domain.queries import Band, QueryConfig, SearchMode
from opx.domain.record import replace
from opx.domain.results import Absent, Answer
from opx.ports import IndexEntry, SearchRequest, SearchResponse
from opx.retrieval.confidence import JudgedPage
from opx.retrieval.hybrid import DEPTH
from opx.retrieval.identifiers import (
    ABOUT,
    ALERT,
    CLEARLY,
    FEW_MENTION,
    MOST_ABOUT,
    MOST_ENTRIES,
    NAME,
    NOT_ABOUT,
    ONLY_MENTION,
    OTHER,
    QuestionIdentifier,
    bounded,
    certain,
    holding,
    kind_of,
)
from opx.retrieval.judging import pages_of
from opx.retrieval.query import KnowledgeQuery
from opx.retrieval.question import whole_terms
from opx.text.analyzer import analyze
from tests.support.judging_support import a_fused_hit, a_page, searched
from tests.support.query_support import RecordingIndex
from tests.unit.retrieval.test_query import a_query, a_text

ANYTHING = QueryConfig(min_confidence=0, max_results=100)
QUEUE = a_text("Messages pile up. Add consumers.", title="QueueHighWarning", section=())
OTHERS = [
    a_text("The disk of the database is full and writes fail.", title="Database disk full"),
    a_text("Pods restart again and again; look at their logs.", title="Pods are crash looping"),
    a_text("Certificates expire without notice; renew them.", title="Certificate expired"),
]
LINKS = a_text("See also QueueHighCritical.", title="Links", section=("Links",), index=3, source="links.md")
THIRTY_WORDS = (
    "since the last deployment of the shop on friday our database writes fail and pods restart again and again while "
    "certificates look fine and nobody in the team knows why the disk of {} is so full"
)


def a_mention(name: str, number: int = 0) -> IndexEntry:
    return a_text(f"Step {number} also reads {name} before it goes on.", title=f"Guide {number}", source=f"{number}.md")


def ask(index: EmbeddedIndex, question: str, *entries: IndexEntry) -> Answer:
    return a_query(index, *entries).search(question, ANYTHING)


def titles(answer: Answer) -> list[str]:
    return [result.title for result in answer.results]


class TestKinds:
    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("CVE-2024-3094", "CVE"),
            ("cve-2024-3094", "CVE"),
            ("CWE-79", "weakness"),
            ("T1059.001", "technique"),
            ("OPS-123", "ticket"),
            ("0x80070005", "code"),
            ("MY-010584", "code"),
            ("ORA-01652", "code"),
            ("ORA-12154", "code"),
            ("ERR_CONNECTION_RESET", "code"),
            ("KubePodCrashLooping", "alert"),
            ("HighCPU", "name"),
            ("NullPointerException", "name"),
            ("CrashLoopBackOff", "name"),
            ("hook.player.connected", "name"),
            ("api_v1_push", "name"),
            ("queue-depth-high", "name"),
            ("moduleControllerCreate", "name"),
        ],
    )
    def test_identifier_of_one_thing_has_a_kind(self, name: str, kind: str) -> None:
        assert kind_of(name) == kind

    @pytest.mark.parametrize(
        "name", ["UTF-8", "SHA-256", "10.0.0.7", "/var/log", "v1.2.3", "5432", "eth0", "HTTP 503", "disk"]
    )
    def test_term_that_pages_mention_for_many_reasons_has_no_kind_of_its_own(self, name: str) -> None:
        assert kind_of(name) == OTHER


class TestAbout:
    @pytest.mark.parametrize("mode", ["fast", "balanced", "thorough"])
    def test_page_about_it_is_first_and_sure_among_thirty_other_words(self, index: EmbeddedIndex, mode: str) -> None:
        question = THIRTY_WORDS.format("CVE-2024-3094")
        assert len(question.split()) > 30
        page = a_text("Upgrade the package.", title="CVE-2024-3094: backdoor in a library")
        answer = a_query(index, page, *OTHERS).search(question, QueryConfig(min_confidence=0, mode=mode))  # type: ignore[arg-type]
        assert titles(answer)[0] == "CVE-2024-3094: backdoor in a library"
        assert answer.results[0].band is Band.SURE
        assert answer.absent == ()

    @pytest.mark.parametrize(
        "fields",
        [
            {"title": "Fix for OPS-4711"},
            {"tags": ("OPS-4711",)},
            {"source": "runbooks/OPS-4711"},
            {"section": ("Known problems", "OPS-4711")},
        ],
        ids=["title", "tag", "source", "heading"],
    )
    def test_title_tags_source_and_headings_name_the_subject_of_a_page(
        self, index: EmbeddedIndex, fields: dict[str, Any]
    ) -> None:
        answer = ask(index, "why OPS-4711", a_text("Upgrade it.", **fields), a_mention("OPS-4711"), *OTHERS)
        assert answer.results[0].content == "Upgrade it."
        assert answer.results[0].confidence >= ABOUT

    def test_of_an_alert_a_page_is_that_begins_with_it_or_has_it_as_its_symptom(self, index: EmbeddedIndex) -> None:
        page = a_text("Messages pile up when QueueHighCritical fires.", title="Queues", section=("Symptoms",), index=3)
        answer = ask(index, "QueueHighCritical", page, LINKS, *OTHERS)
        assert titles(answer)[0] == "Queues"
        assert answer.results[0].confidence >= ABOUT
        assert answer.absent == ()

    def test_more_pages_than_can_be_certain_are_not(self, index: EmbeddedIndex) -> None:
        pages = [a_text(f"Version {n}.", title=f"OPS-4711 part {n}", source=f"{n}.md") for n in range(MOST_ABOUT + 1)]
        answer = ask(index, THIRTY_WORDS.format("OPS-4711"), *pages, *OTHERS)
        assert not [result for result in answer.results if result.confidence in (ABOUT, ONLY_MENTION, FEW_MENTION)]

    def test_part_of_another_name_is_not_about_it(self, index: EmbeddedIndex) -> None:
        answer = ask(index, "alert QueueHighWarning", a_text("Other.", title="QueueHighWarningShop"), *OTHERS)
        assert [one.name for one in answer.absent] == ["QueueHighWarning"]


class TestMentions:
    def test_the_only_page_that_mentions_it_is_sure(self, index: EmbeddedIndex) -> None:
        answer = ask(index, THIRTY_WORDS.format("OPS-4711"), a_mention("OPS-4711"), *OTHERS)
        assert titles(answer)[0] == "Guide 0"
        assert answer.results[0].confidence >= ONLY_MENTION
        assert answer.results[0].metadata["why"] == "alone mentions OPS-4711"

    @pytest.mark.parametrize("name", ["api_v1_push", "10.0.0.7"])
    def test_of_names_that_pages_mention_for_many_reasons_it_has_to_be_likely(
        self, index: EmbeddedIndex, name: str
    ) -> None:
        answer = ask(index, THIRTY_WORDS.format(name), a_mention(name), *OTHERS)
        assert "why" not in answer.results[0].metadata
        answer = ask(index, f"what does guide 0 read in {name}", a_mention(name), *OTHERS)
        assert titles(answer)[0] == "Guide 0"
        assert answer.results[0].metadata["why"] == f"alone mentions {name}"

    def test_of_a_few_that_mention_it_the_likeliest_is_likely(self, index: EmbeddedIndex) -> None:
        few = [a_mention("OPS-4711", n) for n in range(MOST_ABOUT)]
        answer = ask(index, "what is OPS-4711", *few, *OTHERS)
        assert titles(answer)[0].startswith("Guide ")
        assert answer.results[0].confidence >= FEW_MENTION

    def test_mention_of_an_alert_is_no_page_for_it(self, index: EmbeddedIndex) -> None:
        answer = ask(index, "alert QueueHighCritical", LINKS, QUEUE, *OTHERS)
        assert [one.name for one in answer.absent] == ["QueueHighCritical"]
        assert all(result.confidence <= NOT_ABOUT for result in answer.results)

    def test_bare_name_that_pages_mention_need_not_be_an_alert(self, index: EmbeddedIndex) -> None:
        answer = ask(index, "QueueHighCritical", LINKS, QUEUE, *OTHERS)
        assert (titles(answer)[0], answer.absent) == ("Links", ())

    @pytest.mark.parametrize("question", ["OPS-4711 and OPS-4712", "QueueIsFull OutOfOrderQueue"])
    def test_pages_about_each_of_several_are_sure(self, index: EmbeddedIndex, question: str) -> None:
        first, *_, last = question.split()
        pages = [a_text(f"Do {n}.", title=f"{name}: what to do") for n, name in enumerate((first, last))]
        answer = ask(index, question, *pages, QUEUE, *OTHERS)
        assert {result.title for result in answer.results[:2]} == {f"{first}: what to do", f"{last}: what to do"}
        assert [result.band for result in answer.results[:2]] == [Band.SURE, Band.SURE]

    def test_alert_that_pages_of_another_category_are_for_makes_nothing_certain(self, index: EmbeddedIndex) -> None:
        lag = a_text("Queue high warning, messages pile up.", "postmortems", title="Queue high: a warning")
        service = a_query(index, QUEUE, lag, *OTHERS)
        answer = service.search("QueueHighWarning", replace(ANYTHING, categories=("postmortems",)))
        assert answer.absent == ()
        assert all(result.confidence <= NOT_ABOUT for result in answer.results)

    def test_name_that_more_entries_have_decides_nothing(self, index: EmbeddedIndex) -> None:
        question = THIRTY_WORDS.format("api_v1_push")
        entries = [a_mention("api_v1_push", n) for n in range(9)]
        named = a_text("It takes pushes.", title="api_v1_push")
        answer = ask(index, question, *entries, named, *OTHERS)
        assert ABOUT not in [result.confidence for result in answer.results]
        assert answer.results[0].title == "Database disk full"


@pytest.mark.parametrize(
    ("name", "forms"),
    [
        ("hookPlayerConnected", ["hook.player.connected", "hook_player_connecting", "HOOK-PLAYERCONNECTS"]),
        ("KubePodCrashLooping", ["kube-pod-crash-looping's", "kubePodCrashLoops", "(KubePodCrashLooped)"]),
        ("retryPolicies", ["retry-policy", "RetryPolicy."]),
        ("ORA-01555", ["ora_01555", "ORA01555"]),
    ],
)
def test_passages_hold_an_identifier_in_any_form(name: str, forms: list[str]) -> None:
    texts = [name, *forms, "hook the player, which is connected", "Nothing of it.", f"é {forms[0]}"]
    passages = [a_fused_hit(a_mention(text, number).indexed) for number, text in enumerate(texts)]
    term = whole_terms(name)[0]
    expected = [passage.entry_id for passage in passages if term in analyze(passage.chunk.text)]
    assert len(expected) == len(forms) + 2
    found = holding(QuestionIdentifier(name, NAME, term, 1), passages)
    assert [passage.entry_id for passage in found] == expected


def judged_mentions(*confidences: float) -> list[JudgedPage]:
    """Pages that mention `api_v1_push`, as likely as this."""
    entries = [a_page(f"Guide {n}", f"Step {n} reads api_v1_push.", index=5) for n in range(len(confidences))]
    pages = pages_of(searched("push", *((entry, 9.0 - n, 0.5) for n, entry in enumerate(entries))))
    return [JudgedPage(page, one) for page, one in zip(pages, confidences, strict=True)]


class TestCertain:
    PUSH = QuestionIdentifier("api_v1_push", "code", "apiv1push", 3)

    @pytest.mark.parametrize(
        ("confidences", "named", "expected"),
        [
            ((0.1,), PUSH, [(ONLY_MENTION, ONLY_MENTION)]),
            ((CLEARLY, 0.1), PUSH, [(ONLY_MENTION, ONLY_MENTION), (0.1, 0.0)]),
            ((CLEARLY - 0.01, 0.1), PUSH, [(FEW_MENTION, 0.0), (0.1, 0.0)]),
            ((0.5, 0.4, 0.3, 0.2), PUSH, [(0.5, 0.0), (0.4, 0.0), (0.3, 0.0), (0.2, 0.0)]),
            ((0.8,), replace(PUSH, kind=NAME), [(ONLY_MENTION, ONLY_MENTION)]),
            ((0.8,), replace(PUSH, kind=NAME, count=9), [(0.8, 0.0)]),
            ((0.79,), replace(PUSH, kind=NAME), [(0.79, 0.0)]),
            ((0.89,), replace(PUSH, kind=OTHER), [(0.89, 0.0)]),
            ((0.9, 0.1), replace(PUSH, kind=OTHER), [(ONLY_MENTION, ONLY_MENTION), (0.1, 0.0)]),
            ((CLEARLY - 0.01,), replace(PUSH, kind=ALERT), [(CLEARLY - 0.01, 0.0)]),
            ((CLEARLY,), replace(PUSH, kind=ALERT), [(ONLY_MENTION, ONLY_MENTION)]),
            ((CLEARLY,), replace(PUSH, kind=ALERT, others=1), [(CLEARLY, 0.0)]),
            ((CLEARLY, 0.5), replace(PUSH, kind=ALERT), [(CLEARLY, 0.0), (0.5, 0.0)]),
            ((0.1,), replace(PUSH, count=0), [(0.1, 0.0)]),
            ((0.1,), replace(PUSH, count=MOST_ENTRIES + 1), [(0.1, 0.0)]),
            ((0.1,), replace(PUSH, count=None), [(ONLY_MENTION, ONLY_MENTION)]),
        ],
        ids=[
            "only",
            "clearly",
            "unclear",
            "many",
            "name",
            "frequent name",
            "unlikely name",
            "unlikely other",
            "other",
            "unlikely alert",
            "alert",
            "bare alert",
            "alert in two",
            "none",
            "frequent",
            "untold",
        ],
    )
    def test_mentions_make_certain_who_is_meant(
        self, confidences: tuple[float, ...], named: QuestionIdentifier, expected: list[tuple[float, float]]
    ) -> None:
        found = certain(judged_mentions(*confidences), [named])
        assert [(one.confidence, one.least) for one in found] == expected

    def test_no_other_document_is_surer(self) -> None:
        page = pages_of(searched("push", (a_page("api_v1_push", "It takes pushes."), 1.0, 0.1)))[0]
        other = pages_of(searched("disk", (a_page("Disk", "disk full"), 9.0, 0.9)))[0]
        found = certain([JudgedPage(other, 0.999), JudgedPage(page, 0.2)], [self.PUSH])
        assert [(one.page.document_id, one.confidence) for one in found] == [("api_v1_push", ABOUT), ("Disk", ABOUT)]

    def test_without_identifiers_nothing_changes(self) -> None:
        judged = judged_mentions(0.999, 0.2)
        assert certain(judged, []) == judged

    def test_bounded_documents_can_not_be_made_certain(self) -> None:
        (one, other) = bounded(judged_mentions(0.99, 0.2))
        assert (one.confidence, one.least, one.most) == (NOT_ABOUT, 0.0, NOT_ABOUT)
        assert (other.confidence, other.most) == (0.2, NOT_ABOUT)


def searches_for_terms(index: RecordingIndex) -> list[SearchRequest]:
    return [request for request in index.requests if request.filter.required_terms]


class TestMissed:
    """A search gives one hit a leg here, so that most entries are missed."""

    NOISE = (a_text(THIRTY_WORDS.format("hosts"), title="Disk full"), *OTHERS)

    @pytest.fixture(autouse=True)
    def one_hit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(DEPTH, SearchMode.BALANCED, 1)

    def recording(self, index: EmbeddedIndex, *entries: IndexEntry) -> tuple[RecordingIndex, KnowledgeQuery]:
        a_query(index, *entries, *self.NOISE)
        recording = RecordingIndex(index)
        return recording, a_query(recording)

    def test_entry_that_the_best_hits_missed_is_found_by_its_term(self, index: EmbeddedIndex) -> None:
        page = a_text("Upgrade the package to heal OPS-4711.", title="Backdoor")
        recording, service = self.recording(index, page)
        answer = service.search(THIRTY_WORDS.format("OPS-4711"), ANYTHING)
        assert titles(answer)[0] == "Backdoor"
        assert answer.results[0].confidence >= ONLY_MENTION
        assert searches_for_terms(recording)

    def test_identifier_that_was_found_is_not_searched_for_again(self, index: EmbeddedIndex) -> None:
        recording, service = self.recording(index, a_text("Heal OPS-4711.", title="OPS-4711"))
        assert titles(service.search("OPS-4711", replace(ANYTHING, tiers=("internal",))))[0] == "OPS-4711"
        assert searches_for_terms(recording) == []

    def test_identifier_in_no_entry_is_not_searched_for(self, index: EmbeddedIndex) -> None:
        recording, service = self.recording(index)
        service.search(THIRTY_WORDS.format("OPS-4711"), ANYTHING)
        assert searches_for_terms(recording) == []

    def test_it_is_searched_for_within_the_filter_alone(self, index: EmbeddedIndex) -> None:
        page = a_text("Heal OPS-4711.", "postmortems", title="Incident")
        _, service = self.recording(index, page)
        answer = service.search(THIRTY_WORDS.format("OPS-4711"), replace(ANYTHING, categories=("runbooks",)))
        assert "Incident" not in titles(answer)

    def test_document_without_required_provenance_is_not_found_by_identifier(self, index: EmbeddedIndex) -> None:
        page = a_text("Upgrade the package to heal OPS-4711.", title="Backdoor")
        _, service = self.recording(index, replace(page, indexed=replace(page.indexed, source_uri="")))
        for provenance in (True, False):
            answer = service.search(THIRTY_WORDS.format("OPS-4711"), replace(ANYTHING, require_provenance=provenance))
            assert ("Backdoor" in titles(answer)) is not provenance


class TestAbsent:
    @pytest.mark.parametrize(
        "question", ["QueueHighCritical", "alert QueueHighCritical", "QueueHighCritical is firing"]
    )
    def test_alert_without_a_page_is_reported_with_its_sibling(self, index: EmbeddedIndex, question: str) -> None:
        answer = ask(index, question, QUEUE, *OTHERS)
        document_id = QUEUE.indexed.chunk.document_id
        assert answer.absent == (Absent("QueueHighCritical", "alert", "QueueHighWarning", document_id),)
        assert answer.absent[0].text == "no page for alert QueueHighCritical; nearest sibling: QueueHighWarning"

    def test_nothing_is_sure_then(self, index: EmbeddedIndex, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("opx.retrieval.confidence.FAR", 0.0)
        description = "queue high warning, messages pile up, add consumers"
        assert ask(index, description, QUEUE, *OTHERS).results[0].band is Band.SURE
        answer = ask(index, f"alert QueueHighCritical: {description}", QUEUE, *OTHERS)
        assert answer.absent
        assert titles(answer)[0] == "QueueHighWarning"
        assert answer.results[0].confidence == NOT_ABOUT

    def test_page_about_another_identifier_of_the_question_stays_sure(self, index: EmbeddedIndex) -> None:
        answer = ask(index, "alert QueueHighCritical or QueueHighWarning", QUEUE, *OTHERS)
        assert [one.name for one in answer.absent] == ["QueueHighCritical"]
        assert answer.results[0].band is Band.SURE

    def test_absent_vulnerability_is_reported_even_if_nothing_is_near(self, index: EmbeddedIndex) -> None:
        answer = ask(index, "CVE-2024-3094", *OTHERS)
        assert {result.band for result in answer.results} <= {Band.WEAK}
        assert [one.text for one in answer.absent] == ["no page for CVE CVE-2024-3094"]

    def test_sibling_in_a_text_is_named_with_its_page(self, index: EmbeddedIndex) -> None:
        page = a_text("QueueHighWarning fires when messages pile up.", title="Queues")
        (absent,) = ask(index, "alert QueueHighCritical: messages pile up", page, *OTHERS).absent
        assert absent.nearest == "QueueHighWarning (Queues)"

    def test_absent_pasted_alert_is_reported_without_its_labels(self, index: EmbeddedIndex) -> None:
        labels = {"alertname": "QueueHighCritical", "job": "QueueWorkerShop"}
        answer = ask(index, json.dumps({"alerts": [{"labels": labels}]}), QUEUE, *OTHERS)
        assert [one.name for one in answer.absent] == ["QueueHighCritical"]

    @pytest.mark.parametrize(
        "question",
        [
            "messages pile up and the log of our collector says QueueHighCritical returned 5 errors",
            "what does the class MessageQueueListener of the consumers do with messages",
            "messages pile up after NullPointerException",
            "messages pile up in CrashLoopBackOff",
        ],
    )
    def test_name_in_a_log_or_of_code_is_not_claimed(self, index: EmbeddedIndex, question: str) -> None:
        assert ask(index, question, QUEUE, *OTHERS).absent == ()

    def test_absent_code_is_reported_if_it_is_the_whole_question(self, index: EmbeddedIndex) -> None:
        page = a_text("Add space to the undo tablespace.", title="ORA-01555 snapshot too old")
        answer = ask(index, "ORA-01652", page, *OTHERS)
        assert [one.text for one in answer.absent] == [
            "no page for code ORA-01652; nearest sibling: ORA-01555 (ORA-01555 snapshot too old)"
        ]
        assert all(result.band is not Band.SURE for result in answer.results)

    def test_called_an_alert_any_name_is_one(self, index: EmbeddedIndex) -> None:
        assert [one.text for one in ask(index, "alert VaultSealed", QUEUE, *OTHERS).absent] == [
            "no page for alert VaultSealed"
        ]

    def test_sibling_of_the_same_kind_is_named_first(self, index: EmbeddedIndex) -> None:
        page = a_text("QueueIsFullWarning fires when messages pile up.", title="Queue is full")
        (absent,) = ask(index, "alert QueueIsFullCritical: messages pile up", page, *OTHERS).absent
        assert absent.nearest == "QueueIsFullWarning (Queue is full)"

    @pytest.mark.parametrize("name", ["api_v1_push", "hook.player.connected", "0x80070005"])
    def test_names_and_codes_are_not_claimed(self, index: EmbeddedIndex, name: str) -> None:
        assert ask(index, f"messages pile up {name}", QUEUE, *OTHERS).absent == ()

    @pytest.mark.parametrize(
        ("question", "config"),
        [
            ("alert QueueHighWarning", {"categories": ("postmortems",)}),
            ("alert QueueHighWarning", {"tags": ("kafka",)}),
            ("alert QueueHighWarning tag:kafka", {}),
            ("alert QueueHighWarning after:2027", {}),
            ("alert QueueHighWarning", {"document_id": OTHERS[0].indexed.chunk.document_id}),
        ],
    )
    def test_page_outside_of_the_filter_is_not_absent(
        self, index: EmbeddedIndex, question: str, config: dict[str, Any]
    ) -> None:
        outage = a_text("Messages were late.", "postmortems", title="Outage", tags=("kafka",))
        service = a_query(index, QUEUE, outage, *OTHERS)
        assert service.search(question, replace(ANYTHING, **config)).absent == ()

    def test_identifier_in_no_document_is_absent_within_a_filter_too(self, index: EmbeddedIndex) -> None:
        answer = a_query(index, QUEUE).search("CVE-2024-3094", replace(ANYTHING, categories=("postmortems",)))
        assert [one.name for one in answer.absent] == ["CVE-2024-3094"]

    def test_identifier_of_a_document_in_another_tier_is_not_absent(self, index: EmbeddedIndex) -> None:
        page = a_text("A backdoor.", "security/cve", title="CVE-2024-3094")
        answer = ask(index, "CVE-2024-3094", page, *OTHERS)
        assert (titles(answer)[0], answer.absent) == ("CVE-2024-3094", ())

    def test_nothing_is_claimed_when_words_could_not_be_searched(self, index: EmbeddedIndex) -> None:
        class WithoutWords(RecordingIndex):
            def search(self, request: SearchRequest) -> SearchResponse:
                found: SearchResponse = self._index.search(replace(request, text=None))
                return replace(found, lexical=replace(found.lexical, error="timeout"), term_frequencies={})

        a_query(index, QUEUE)
        answer = a_query(WithoutWords(index)).search("alert QueueHighCritical", ANYTHING)
        assert (answer.partial, answer.absent) == (True, ())


BAD = {
    "pictures": "🔥" * 500 + " QueueHigh🔥Critical CVE-🔥-1",
    "long": "alert QueueHighCritical " + "x" * 100_000,
    "a long name": "Queue" + "High" * 25_000,
    "many": " ".join(f"CVE-2024-{n}" for n in range(1000, 6000)),
    "nested": "alert " + "Queue_High." * 5000,
    "marks": "CVE-2024-3094\u0301 \u202eCVE-2024-3094 \x00",
}


class TestBadInput:
    @pytest.mark.parametrize("question", BAD.values(), ids=BAD)
    def test_is_answered(self, index: EmbeddedIndex, question: str) -> None:
        answer = ask(index, question, QUEUE, *OTHERS)
        assert not answer.partial
        assert len(answer.absent) <= 32
        assert all(0 <= result.confidence <= 1 for result in answer.results)

    def test_among_thousands_of_identifiers_one_is_reported_once(self, index: EmbeddedIndex) -> None:
        names = [f"CVE-2024-{n}" for n in random.Random(1).choices(range(1000, 1010), k=5000)]
        answer = ask(index, " ".join(names), QUEUE)
        assert sorted(one.name for one in answer.absent) == sorted(set(names))
