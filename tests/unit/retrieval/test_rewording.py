"""Questions with words that the corpus doesn't have: corrected, translated, or left as they were typed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.domain.queries import MAX_QUERY_CHARACTERS, QueryConfig
from opx.domain.record import replace
from opx.domain.results import Answer
from opx.domain.scopes import Identity, Reader, Scope, reader_of
from opx.errors import IndexUnavailableError
from opx.ports import SearchFilter, SearchRequest, SearchResponse
from opx.retrieval.query_language import parse_query
from opx.retrieval.rewording import MAX_WORDS, reworded
from opx.retrieval.searching import SearchRules
from opx_testing.entries import a_change
from tests.support.fakes import WordsEmbedder
from tests.support.query_support import a_knowledge_query
from tests.unit.retrieval.test_query import KNOWLEDGE, NOBODY, a_text

ANYTHING = QueryConfig(min_confidence=0)
MISTYPED = "the disk of the databse server is full"
PAGES = (
    "The disk of the database server is full: delete old archives, then extend the volume.",
    "The kubernetes node is not ready: drain the node and restart the kubelet.",
    "Each kubernetes cluster has a database server with a disk and a connection pool.",
    "Renew the certificate before it expires; certificates are in the gateway.",
    "Connections to the gateway are refused while the node restarts.",
    "Several alerts are separate from each other; several are severe. Groups are separate.",
)


@pytest.fixture
def index(index: EmbeddedIndex) -> EmbeddedIndex:
    index.apply([a_change(a_text(page, source=f"{at}.md")) for at, page in enumerate(PAGES)])
    return index


class Counting:
    """An index that remembers what it was searched for; it fails from a search on, if that is given."""

    def __init__(self, index: EmbeddedIndex, fails_from: int = 1_000) -> None:
        self._index = index
        self._fails_from = fails_from
        self.texts: list[str] = []
        self.looked_up: list[int] = []

    def search(self, request: SearchRequest) -> SearchResponse:
        self.texts.append(request.text or "")
        if len(self.texts) >= self._fails_from:
            raise IndexUnavailableError("down")
        return self._index.search(request)

    def entries_with(self, terms: Any, scopes: Sequence[str]) -> Any:
        terms = list(terms)
        self.looked_up.append(len(terms))
        return self._index.entries_with(terms, scopes)


def ask(index: Any, question: str, config: QueryConfig = ANYTHING, reader: Reader = NOBODY, **parts: Any) -> Answer:
    used: dict[str, Any] = {"embedder": WordsEmbedder(), "knowledge": KNOWLEDGE} | parts
    return a_knowledge_query(index, reader=reader, **used).search(question, config)


def proposed(index: EmbeddedIndex, question: str, reader: Reader = NOBODY) -> dict[str, str]:
    """The rewording of a question, whatever is found with it."""
    query = parse_query(question, ANYTHING, KNOWLEDGE)
    where = SearchFilter(tuple(reader.visible))
    found = index.search(SearchRequest(where, query.text, languages=query.languages)).term_frequencies
    query.lacking(word for word, entries in found.items() if not entries)
    other = reworded(query, query.question, index, reader.visible)
    return {change.before: change.after for change in other.changes} if other else {}


def changes(answer: Answer) -> dict[str, str]:
    return {change["from"]: change["to"] for change in answer.understood.get("reworded", [])}


class TestSpelling:
    @pytest.mark.parametrize(
        ("typed", "meant"),
        [
            ("databse", "database"),
            ("databasse", "database"),
            ("datavase", "database"),
            ("dtaabase", "database"),
            ("Databse", "database"),
            ("certifcate", "certificate"),
            ("kubernets", ""),  # its stem is that of the word
            ("kubernrtes", "kubernetes"),
            ("connectons", "connections"),
            ("seperate", "separate"),  # not `severate`, whose stem is that of `several`
            ("gatewey", "gateway"),
        ],
    )
    def test_one_letter_is_corrected_to_a_word_that_is_written(
        self, index: EmbeddedIndex, typed: str, meant: str
    ) -> None:
        assert proposed(index, f"why is the {typed} broken") == ({typed: meant} if meant else {})

    def test_answer_is_that_of_the_corrected_question_with_a_note(self, index: EmbeddedIndex) -> None:
        answer, right = ask(index, "renew the certifcate"), ask(index, "renew the certificate")
        assert [one.content for one in answer.results] == [one.content for one in right.results]
        assert [one.confidence for one in answer.results] == [one.confidence for one in right.results]
        assert answer.query == "renew the certifcate"
        assert answer.understood["text"] == "renew the certificate"
        assert answer.understood["reworded"] == [{"from": "certifcate", "to": "certificate", "why": "spelling"}]
        assert "searched also for: certificate (certifcate)" in answer.notes

    @pytest.mark.parametrize(
        "question",
        [
            "why is the database broken",  # nothing is unknown
            "why is the datbs broken",  # two edits
            "why is the ratabase broken",  # another first letter
            "the dsik broken",  # too short
            "why is the DATABSE broken",  # possibly an acronym
            "why is databse-01 broken",
            "why is dataBse.local broken",
            "why is data_bse broken",
            "thiss broken",  # may be meant for a word that is left out of searches
            "while dying hosts",  # English that this corpus doesn't have
            "ядро 日本語 💥 кластер",
        ],
    )
    def test_other_words_stay(self, index: EmbeddedIndex, question: str) -> None:
        assert proposed(index, question) == {}

    def test_the_most_frequent_word_is_meant(self, index: EmbeddedIndex) -> None:
        index.apply([a_change(a_text(f"clutter {n}", source=f"c{n}.md")) for n in range(3)])
        assert proposed(index, "cluter") == {"cluter": "clutter"}
        index.apply([a_change(a_text(f"cluster {n}", source=f"n{n}.md")) for n in range(3)])
        assert proposed(index, "cluter") == {"cluter": "cluster"}

    def test_words_derived_from_one_that_there_is_stay(self, index: EmbeddedIndex) -> None:
        index.apply([a_change(a_text("load it; it is loaded", source="load.md"))])
        assert proposed(index, "a bulk loader") == {}

    def test_corrected_are_the_first_words_only(self, index: EmbeddedIndex) -> None:
        typos = ["databse", "certifcate", "gatewey", "kubernrtes", "seperate", "servre", "connectons", "voluma"]
        found = proposed(index, " ".join(typos))
        assert list(found) == typos[:MAX_WORDS]

    def test_searched_again_only_where_something_changes(self, index: EmbeddedIndex) -> None:
        known, unknown, typo = Counting(index), Counting(index), Counting(index)
        ask(known, "disk full")
        ask(unknown, "xylophone disk full")
        ask(typo, "databse disk")
        assert (len(known.texts), known.looked_up) == (2, [])  # a tier each
        assert (len(unknown.texts), len(unknown.looked_up)) == (2, 1)
        assert typo.texts.count("database disk") == 2


class TestIntendedWords:
    @pytest.mark.parametrize(
        "question",
        [
            '"databse server"',
            'disk "databse"',
            "disk title:databse",
            "disk -databse",
            "disk service:databse",
            "tag:databse",
        ],
    )
    def test_words_in_quotes_and_operators_stay(self, index: EmbeddedIndex, question: str) -> None:
        assert proposed(index, question) == {}

    def test_other_words_beside_operators_are_corrected(self, index: EmbeddedIndex) -> None:
        assert proposed(index, 'databse "gatewey"') == {"databse": "database"}

    def test_plain_questions_stay(self, index: EmbeddedIndex) -> None:
        assert changes(ask(index, MISTYPED)) == {"databse": "database"}
        assert changes(ask(index, MISTYPED, replace(ANYTHING, plain=True))) == {}

    def test_pasted_lines_stay(self, index: EmbeddedIndex) -> None:
        line = '2026-11-22T02:14:00 ERROR: could not open databse "users" -check'
        answer = ask(index, line)
        assert answer.understood["pasted"]
        assert changes(answer) == {}

    def test_pasted_alerts_stay(self, index: EmbeddedIndex) -> None:
        alert = '{"labels": {"alertname": "DiskFull"}, "annotations": {"summary": "the disk of the databse server is full"}}'
        assert changes(ask(index, alert)) == {}

    def test_rewording_can_be_switched_off(self, index: EmbeddedIndex) -> None:
        assert changes(ask(index, MISTYPED, rules=SearchRules(reword=False))) == {}


class TestTranslation:
    @pytest.mark.parametrize(
        ("question", "expected"),
        [
            ("Warum ist die Festplatte voll?", {"Festplatte voll": "disk full"}),
            ("Wie lange ist die Festplatte schon so?", {"Festplatte": "disk"}),
            ("Die Datenbankverbindung wird nicht aufgebaut", {"Datenbankverbindung": "database connection"}),
            ("Warum startet der Kubernetesknoten nicht?", {"Kubernetesknoten": "kubernetes node"}),
            ("¿Por qué está lleno el disco de la base de datos?", {"disco": "disk", "base de datos": "database"}),
            ("le certificat est expiré", {"certificat": "certificate"}),
        ],
    )
    def test_unknown_words_are_translated(self, index: EmbeddedIndex, question: str, expected: dict[str, str]) -> None:
        found = proposed(index, question)
        assert expected.items() <= found.items()

    def test_answers_are_those_of_the_english_question(self, index: EmbeddedIndex) -> None:
        answer = ask(index, "Warum ist die Festplatte voll?")
        assert {change["why"] for change in answer.understood["reworded"]} == {"translation"}
        assert answer.results[0].content == PAGES[0]
        assert any(note.startswith("searched also for: disk full (Festplatte voll)") for note in answer.notes)

    @pytest.mark.parametrize(
        ("question", "searched"),
        [
            ("Die Datenbank nimmt keine Verbindungen mehr an", "database connect"),
            ("Warum ist das Zertifikat kubelet abgelaufen?", "certificate kubelet expired?"),
            ("Welcher Kuchen schmeckt im Sommer am besten, wenn die Datenbank frei hat", ""),
        ],
        ids=["few others", "one that the corpus has", "about something else"],
    )
    def test_words_beside_translated_ones_that_nothing_has_are_left_out(
        self, index: EmbeddedIndex, question: str, searched: str
    ) -> None:
        counting = Counting(index)
        ask(counting, question, replace(ANYTHING, language="de"))
        assert (searched in counting.texts) == bool(searched)
        assert searched or any("Kuchen" in text and "database" in text for text in counting.texts)

    def test_words_that_the_corpus_has_stay(self, index: EmbeddedIndex) -> None:
        index.apply([a_change(a_text("Die Festplatte austauschen", source="de.md", language="de"))])
        assert "Festplatte" not in proposed(index, "Warum ist die Festplatte voll?")

    def test_names_and_quoted_words_stay(self, index: EmbeddedIndex) -> None:
        found = proposed(index, 'Warum ist "Festplatte" auf node-17.example voll, wer ist Schmidt?')
        assert found == {"voll": "full"}

    def test_a_phrase_over_two_lines_is_named_on_one(self, index: EmbeddedIndex) -> None:
        found = proposed(index, "¿Por qué no funciona la base\n de   datos?")
        assert found["base de datos"] == "database"

    def test_english_questions_are_not_translated(self, index: EmbeddedIndex) -> None:
        assert proposed(index, "how to fix the Festplatte of this server when it fails") == {}

    def test_parts_of_hyphenated_words_are_translated(self, index: EmbeddedIndex) -> None:
        assert proposed(index, "Warum ist die PostgreSQL-Datenbank nicht erreichbar?")["Datenbank"] == "database"


class TestIsolation:
    def test_words_of_other_scopes_are_no_corrections(self, index: EmbeddedIndex) -> None:
        secret = [a_text(f"the zanzibar project {n}", scope=Scope("other"), source=f"z{n}.md") for n in range(3)]
        index.apply([a_change(entry) for entry in secret])
        reader = reader_of(Identity("acme"))
        answer = ask(index, "zanzibat project", reader=reader)
        assert proposed(index, "zanzibat project", reader=reader) == {}
        assert changes(answer) == {}
        assert "zanzibar" not in repr(answer)
        assert proposed(index, "zanzibat project", reader=reader_of(Identity("other"))) == {"zanzibat": "zanzibar"}

    def test_entries_of_other_scopes_do_not_decide_between_corrections(self, index: EmbeddedIndex) -> None:
        own = [a_text(f"clutter of archives {n}", scope=Scope("acme"), source=f"c{n}.md") for n in range(2)]
        others = [a_text(f"cluster of nodes {n}", scope=Scope("other"), source=f"n{n}.md") for n in range(9)]
        index.apply([a_change(entry) for entry in (*own, *others)])
        assert proposed(index, "cluter", reader=reader_of(Identity("acme"))) == {"cluter": "clutter"}
        assert proposed(index, "cluter", reader=reader_of(Identity("other"))) == {"cluter": "cluster"}


class TestFailures:
    @pytest.mark.parametrize("fails_from", [3, 4])
    def test_an_index_that_fails_later_leaves_the_first_answer(self, index: EmbeddedIndex, fails_from: int) -> None:
        first = ask(index, MISTYPED, rules=SearchRules(reword=False))
        answer = ask(Counting(index, fails_from), MISTYPED)
        assert [one.content for one in answer.results] == [one.content for one in first.results]
        assert changes(answer) == {}
        assert answer.understood["text"] == MISTYPED

    def test_a_rewording_that_finds_nothing_is_none(self, index: EmbeddedIndex) -> None:
        config = replace(ANYTHING, categories=("security/cve",))
        assert changes(ask(index, MISTYPED, config)) == {}

    @pytest.mark.parametrize(
        "question",
        [
            " ".join(f"unknownword{'abcdefghij'[n % 10]}{'klmnopqrst'[n // 10 % 10]}xy" for n in range(10_000)),
            "x" * 10_000,
            "festplatten" * 900,
            "💥 " * 5_000,
            "Warum ist " + "die Fesstplate " * 600,
            "warum\udcff die\x00 Festplatte",
        ],
    )
    def test_odd_questions_are_answered_soon(self, index: EmbeddedIndex, question: str) -> None:
        counting = Counting(index)
        started = time.perf_counter()
        answer = ask(counting, question)
        assert time.perf_counter() - started < 5
        assert len(answer.query) <= max(len(question), MAX_QUERY_CHARACTERS)
        assert all(terms < 30_000 for terms in counting.looked_up)
        assert len(counting.texts) <= 4 + 3 * MAX_WORDS
