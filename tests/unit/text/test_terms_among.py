"""Terms of a question in texts: the same as an intersection with all terms of the text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as calm_settings
from hypothesis import strategies as st

from opx.text.analyzer import TermsAmong
from opx.text.fields import MAX_TERM_LENGTH, distinct_terms

calm = calm_settings(deadline=None)  # a busy machine is no failure

DOCUMENTS = sorted((Path(__file__).parents[3] / "corpus" / "documents").rglob("*.md"))

LANGUAGES = (("en",), ("de", "en"), ("fr", "en"), ("es", "en"))

ODD = """
    dying lies ties using aged skies dries early only news 1.2.3 10.2.3.4 75-174 1_000_000 kube-proxy hook.player.connected
    KubePodCrashLooping l'erreur d’accès Ueberlast Überlast Straße cámara ディスク ip-10-0-0-1 a-b-c x86_64 the of
"""

some_text = st.lists(st.sampled_from(ODD.split()) | st.text(max_size=12)).map(" ".join)


@pytest.mark.parametrize("languages", LANGUAGES)
@pytest.mark.parametrize("text", [path.read_text(encoding="utf-8")[:8000] for path in DOCUMENTS], ids=str)
def test_every_term_of_a_document_is_found_in_it(text: str, languages: Sequence[str]) -> None:
    terms = distinct_terms(text, languages)
    assert TermsAmong(terms, languages)(text) == terms


@calm
@given(some_text, some_text, st.sampled_from(LANGUAGES))
def test_the_same_terms_as_of_an_intersection(text: str, asked: str, languages: Sequence[str]) -> None:
    wanted = distinct_terms(asked, languages)
    assert TermsAmong(wanted, languages)(text) == distinct_terms(text, languages) & wanted


def test_terms_that_are_not_wanted_are_left_out() -> None:
    assert TermsAmong(frozenset({"disk"}))("the disk of kube-proxy is full") == {"disk"}


def test_a_term_that_is_cut_is_found() -> None:
    long = "x" * (2 * MAX_TERM_LENGTH)
    assert TermsAmong(distinct_terms(long))(long) == {long[:MAX_TERM_LENGTH]}
