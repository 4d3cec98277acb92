"""A question without its values: what says where a problem is, not which one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.domain.queries import QueryConfig, SearchMode
from opx.ports import Vector
from opx.retrieval.question import LEAST_WORDS, focused, value_words
from opx.text.analyzer import ENGLISH
from opx_testing.entries import a_change
from tests.support.fakes import WordsEmbedder
from tests.support.query_support import RecordingIndex, a_knowledge_query
from tests.unit.retrieval.test_query import KNOWLEDGE, NOBODY, a_text


class CountingEmbedder(WordsEmbedder):
    """Keeps the questions."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed_query(self, text: str) -> Vector:
        self.texts.append(text)
        return super().embed_query(text)


@pytest.mark.parametrize(
    ("question", "left"),
    [
        ("Pod payments/api-7c9d8f6b5-x2k4q is restarting 5 times", "Pod is restarting times"),
        ("Filesystem on /dev/nvme1n1 at 10.0.12.7:9100 has only 8.0% left.", "Filesystem on at has only left."),
        ("Clock on node-3 is out of sync by 300s", "Clock on is out of sync by"),
        ("queue depth of orders > 10000 since 02:14", "queue depth of orders > since"),
    ],
)
def test_values_go(question: str, left: str) -> None:
    assert focused(question) == left


@pytest.mark.parametrize(
    "question",
    [
        "too many 5xx and 503 answers behind nginx",
        "p99 latency of IPv4 and IPv6 clients",
        "upgrade from v1.2.3 fails at once",
        "see https://docs.test/a/b for what it means",
        "files below /var/log grow without end",
        "pods are crash looping after the deployment",
        "the route api_v1_push has many errors",
        "ORA-01555 when a long report runs",
    ],
)
def test_values_with_a_meaning_stay_in_the_question(question: str) -> None:
    assert focused(question) == question


@pytest.mark.parametrize("question", ["", "10.0.0.7", "CVE-2024-3094", "web-server-01 slow", "ORA-01555 on db-7"])
def test_a_question_that_is_hardly_more_than_values_stays(question: str) -> None:
    assert focused(question) == question


@given(st.text(max_size=200))
def test_words_only_go_and_their_order_stays(text: str) -> None:
    left, words = focused(text).split(), iter(text.split())
    assert all(word in words for word in left)
    assert left == text.split() or len(left) >= LEAST_WORDS


def test_words_that_only_values_have_are_value_words() -> None:
    found = value_words("api pod payments/api-7c9d8f6b5 is restarting 5 times", ENGLISH)
    assert found >= {"payment", "7c9d8f6b5", "5"}
    assert not found & {"api", "pod", "restart", "time"}
    assert hash(found)  # part of a search's request


def test_a_question_without_values_has_no_value_words() -> None:
    assert value_words("pods are crash looping", ENGLISH) == frozenset()


class TestSearches:
    """A question with values in an answer."""

    QUESTION = "api pod payments/web-7c9d8f6b5 is restarting 5 times"

    @pytest.mark.parametrize("mode", list(SearchMode))
    def test_every_mode_embeds_and_searches_once_with_the_values_marked(
        self, index: EmbeddedIndex, mode: SearchMode
    ) -> None:
        recording, embedder = RecordingIndex(index), CountingEmbedder()
        index.apply([a_change(a_text("the api pod is restarting"))])
        query = a_knowledge_query(recording, embedder, KNOWLEDGE, NOBODY)
        config = QueryConfig(mode=mode, min_confidence=0, tiers=("internal",))
        assert query.search(self.QUESTION, config).results
        (request,) = recording.requests
        assert request.text == self.QUESTION
        assert request.values == value_words(self.QUESTION, ENGLISH)
        assert embedder.texts == [self.QUESTION]
