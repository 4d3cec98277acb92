"""Questions by words in eight languages, over ten short runbooks in each of seven: `passages.json`.

Half of the questions are sentences, half two or three words, some without accents. A hit is the runbook of the question's
own language; the others say the same in theirs. The rates are those measured, less one question of a language.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.domain.record import replace
from opx.ports import SearchRequest
from opx.text.languages import detect_language, question_languages
from opx_testing.entries import EVERYONE, VECTOR_DIMENSION, a_change, an_entry

PASSAGES = json.loads(Path(__file__).with_name("passages.json").read_text(encoding="utf-8"))
FOREIGN = [language for language in PASSAGES if language != "en"]

FIRST = {"de": 17, "fr": 19, "es": 18, "it": 19, "pt": 16, "ja": 19, "zh": 19}
"""Of 20 questions, those whose runbook must be the first hit. With English stems for all: 16, 16, 17, 15, 15, 0, 0."""

AMONG_THREE = {"de": 18, "fr": 19, "es": 19, "it": 19, "pt": 19, "ja": 19, "zh": 19}


def text_of(topic: dict[str, str]) -> str:
    return f"# {topic['title']}\n\n{topic['text']}"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedIndex]:
    index = EmbeddedIndex(tmp_path_factory.mktemp("languages"), model_id="none", dimension=VECTOR_DIMENSION)
    entries = []
    for language in FOREIGN:
        for name, topic in PASSAGES[language].items():
            entry = an_entry(topic["text"], title=topic["title"], section=(), source=f"{language}/{name}")
            detected = detect_language(text_of(topic)).language
            entries.append(replace(entry, indexed=replace(entry.indexed, language=detected)))
    index.apply([a_change(entry) for entry in entries])
    yield index
    index.close()


def ranks(index: EmbeddedIndex, language: str) -> Iterator[int]:
    """For each question where its runbook is among the hits, from 1; 1000 if it isn't."""
    for name, topic in PASSAGES[language].items():
        for question in topic["questions"]:
            request = SearchRequest(EVERYONE, text=question, languages=question_languages(question))
            response = index.search(request)
            found = [response.chunks[entry_id].source_uri for entry_id, _ in response.lexical.hits]
            wanted = f"file:///corpus/{language}/{name}"
            yield found.index(wanted) + 1 if wanted in found else 1000


@pytest.mark.parametrize("language", FOREIGN)
def test_questions_find_the_runbook_in_their_language_by_words(index: EmbeddedIndex, language: str) -> None:
    found = list(ranks(index, language))
    assert len(found) == 20
    assert sum(rank == 1 for rank in found) >= FIRST[language]
    assert sum(rank <= 3 for rank in found) >= AMONG_THREE[language]


@pytest.mark.parametrize("language", FOREIGN)
def test_the_language_of_every_runbook_is_detected(language: str) -> None:
    assert {detect_language(text_of(topic)).language for topic in PASSAGES[language].values()} == {language}


def test_most_questions_languages_are_the_first_guess_and_no_english_one_is_mistaken() -> None:
    questions = [
        (language, q) for language, topics in PASSAGES.items() for each in topics.values() for q in each["questions"]
    ]
    right = [language for language, question in questions if question_languages(question)[0] == language]
    assert right.count("en") == 20
    assert len(right) >= 145
    assert len(questions) == 160
