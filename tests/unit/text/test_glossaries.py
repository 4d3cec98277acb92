"""The glossaries: a line `word = english` each, for words of questions about operations in five languages."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from opx.text.analyzer import STEMMERS, STOP_WORDS, folded

GLOSSARIES = files("opx.text").joinpath("glossaries")
LANGUAGES = sorted(set(STEMMERS) - {"en"})

# Letters, which a hyphen or an apostrophe may join; one to three words.
WORDS = re.compile(r"[^\W\d_]+(?:[-'][^\W\d_]+)*(?: [^\W\d_]+(?:[-'][^\W\d_]+)*){0,2}")
ENGLISH = re.compile(r"[a-z]+(?:-[a-z]+)*(?: [a-z]+(?:-[a-z]+)*){0,2}")


def lines_of(language: str) -> list[str]:
    return GLOSSARIES.joinpath(f"{language}.txt").read_text(encoding="utf-8").splitlines()


def entries_of(language: str) -> list[tuple[str, str]]:
    pairs = [line.split(" = ") for line in lines_of(language)]
    return [(word, english) for word, english in pairs]


def test_each_stemmed_language_but_english_has_a_glossary() -> None:
    assert sorted(file.name for file in GLOSSARIES.iterdir()) == [f"{language}.txt" for language in LANGUAGES]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_line_is_words_and_their_english(language: str) -> None:
    lines = lines_of(language)
    assert len(lines) >= 400
    assert [line for line in lines if line.count(" = ") != 1] == []
    entries = entries_of(language)
    assert [word for word, _ in entries if word != word.lower() or not WORDS.fullmatch(word)] == []
    assert [(word, english) for word, english in entries if not ENGLISH.fullmatch(english)] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_are_sorted_and_named_once(language: str) -> None:
    listed = [word for word, _ in entries_of(language)]
    assert listed == sorted(set(listed))


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_without_their_accents_have_one_translation(language: str) -> None:
    by_plain: dict[str, set[str]] = {}
    for word, english in entries_of(language):
        by_plain.setdefault(folded(word), set()).add(english)
    assert {word: found for word, found in by_plain.items() if len(found) > 1} == {}


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_stop_word_is_translated(language: str) -> None:
    stop_words = {folded(word) for word in STOP_WORDS[language]}
    assert [word for word, _ in entries_of(language) if folded(word) in stop_words] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_translation_is_of_stop_words_alone(language: str) -> None:
    stop_words = STOP_WORDS["en"]
    assert [word for word, english in entries_of(language) if set(english.split()) <= stop_words] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_that_english_has_too_are_left_out(language: str) -> None:
    assert [word for word, english in entries_of(language) if folded(word) == english] == []
