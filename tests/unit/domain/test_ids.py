"""Identifiers: the same everywhere, different for different input. Texts and sequences in pieces of a limited size."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from itertools import count, islice
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.domain import ids
from opx.domain.documents import DocumentKey
from opx.domain.ids import batched, beginning_so, shortened
from opx.domain.scopes import Scope
from opx.errors import InvalidInputError

calm = settings(deadline=None)  # a busy machine is no failure

ACCENTED = "Café Ångström 😀\nnaïve 漢字"
LINE_ENDS = st.sampled_from(["\n", "\r\n", "\r"])
WORDS = st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs", "Cn")))
PARTS = st.lists(st.one_of(st.text(), st.integers(), st.booleans(), st.none(), st.lists(st.text(), max_size=3)))


# -- golden values: computed once, equal on every machine and Python version -------------------------------------------


def test_document_id_has_its_known_value() -> None:
    digest = ids.content_hash(ACCENTED)
    assert digest == "e364b07c325d3961e02b4a747ecebf68a0f14dca37ee0ab655a04796448a88ef"
    assert ids.document_id("Café runbook", "runbooks/procedures", digest) == "aaf12db06900f8a0d4ec14d9f5d4f8b6"


def test_chunk_id_has_its_known_value() -> None:
    assert ids.chunk_id("0" * 32, 7, ACCENTED) == "cf134e0e9a2721fa3e6ba495b7e80b06"


def test_entry_id_has_its_known_value() -> None:
    assert ids.entry_id("0" * 32, "f" * 32) == "d50397d172d41d454139ddfca4b0a19c"


def test_key_id_has_its_known_value() -> None:
    key = DocumentKey(Scope("acme", project_id="shop"), "documents/runbooks/näme.md")
    assert key.id == "43d20eb781d1076155806f0a0a9dc979"


def test_stable_hash_of_json_values_has_its_known_value() -> None:
    assert ids.stable_hash("a", 1, 1.5, True, None, ["x"], {"b": 1, "a": 2}) == "760ec49942e50bbd4e6ad4a64c30ff83"


def test_stable_hash_is_of_the_compact_json_of_its_parts() -> None:
    assert ids.stable_hash("é", 1) == hashlib.sha256('["é",1]'.encode()).hexdigest()[:32]


# -- normalisation ---------------------------------------------------------------------------------------------------


@calm
@given(st.lists(WORDS), LINE_ENDS)
def test_content_hash_is_of_the_text_not_of_its_line_ends(lines: list[str], end: str) -> None:
    assert ids.content_hash(end.join(lines)) == ids.content_hash("\n".join(lines))


@calm
@given(st.text(), st.sampled_from(["NFC", "NFD"]))
def test_ids_do_not_depend_on_how_characters_are_composed(text: str, form: Literal["NFC", "NFD"]) -> None:
    other = unicodedata.normalize(form, text)
    assert ids.content_hash(other) == ids.content_hash(text)
    assert ids.chunk_id("d", 0, other) == ids.chunk_id("d", 0, text)
    assert ids.document_id(other, "c", "0") == ids.document_id(text, "c", "0")


@calm
@given(st.text(st.characters()))
def test_normalising_twice_changes_nothing(text: str) -> None:
    assert ids.normalise(ids.normalise(text)) == ids.normalise(text)


@calm
@given(st.lists(st.text(st.sampled_from("ae\u0301\u0327\u1100\u1161\u11a8가 ́"))))
def test_normalising_line_by_line_equals_normalising_the_whole(lines: list[str]) -> None:
    assert "\n".join(map(ids.normalise, lines)) == ids.normalise("\n".join(lines))


def test_content_hash_is_the_sha256_of_the_normalised_text() -> None:
    assert ids.content_hash("e\u0301\r\n") == hashlib.sha256("é\n".encode()).hexdigest()


def test_lone_surrogates_have_an_id() -> None:
    assert ids.content_hash("\ud800") != ids.content_hash("\udfff")


# -- different input, different ids ----------------------------------------------------------------------------------


@calm
@given(PARTS, PARTS)
def test_stable_hash_differs_exactly_when_the_parts_do(first: list[object], second: list[object]) -> None:
    assert (ids.stable_hash(*first) == ids.stable_hash(*second)) == (json.dumps(first) == json.dumps(second))


@calm
@given(st.lists(st.text(), min_size=1, max_size=4), st.integers(0, 3))
def test_stable_hash_depends_on_where_one_part_ends(parts: list[str], at: int) -> None:
    at = min(at, len(parts) - 1)
    divided = [*parts[:at], parts[at][:1], parts[at][1:], *parts[at + 1 :]]
    assert ids.stable_hash(*divided) != ids.stable_hash(*parts)


def test_a_number_and_its_digits_have_different_hashes() -> None:
    assert len({ids.stable_hash(1), ids.stable_hash("1"), ids.stable_hash(True), ids.stable_hash(1.0)}) == 4


def test_document_id_depends_on_title_category_and_content() -> None:
    base = ids.document_id("t", "c", "0")
    others = {ids.document_id("u", "c", "0"), ids.document_id("t", "d", "0"), ids.document_id("t", "c", "1")}
    assert base not in others
    assert len(others) == 3


def test_chunk_id_depends_on_document_position_and_text() -> None:
    found = {ids.chunk_id("a", 0, "x"), ids.chunk_id("b", 0, "x"), ids.chunk_id("a", 1, "x"), ids.chunk_id("a", 0, "y")}
    assert len(found) == 4


def test_the_same_chunk_under_two_keys_has_two_entries() -> None:
    assert ids.entry_id("key one", "chunk") != ids.entry_id("key two", "chunk")


def test_the_same_source_in_two_scopes_has_two_keys() -> None:
    scopes = [Scope(), Scope("a"), Scope("b"), Scope("a", group_id="g"), Scope("a", project_id="g")]
    assert len({DocumentKey(scope, "documents/x.md").id for scope in scopes}) == len(scopes)


def an_id(text: str) -> str:
    return f"{text}  a line"


@pytest.mark.parametrize("wanted", ["ab1", "AB1", " ab12cd "])
def test_the_only_one_that_begins_so_is_found(wanted: str) -> None:
    assert beginning_so(wanted, ["ab12cd", "ab2"], an_id, kind="things") == "ab12cd"


@pytest.mark.parametrize("wanted", ["", " ", "f0", "ab12cd0"])
def test_none_begins_so(wanted: str) -> None:
    assert beginning_so(wanted, ["ab12cd", "ab2"], an_id, kind="things") is None


def test_of_several_that_begin_so_the_first_are_named() -> None:
    with pytest.raises(InvalidInputError) as error:
        beginning_so("ab", [f"ab{number}" for number in range(9)], an_id, kind="things")
    assert str(error.value).startswith("ab is the beginning of 9 things:\n  ab0  a line\n")
    assert str(error.value).count("\n") == 5


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [("", 1, ""), ("abc", 3, "abc"), ("abcd", 3, "ab…"), ("a bcd", 3, "a…"), ("ab", 1, "…")],
)
def test_longer_text_ends_with_an_ellipsis(text: str, most: int, expected: str) -> None:
    assert shortened(text, most) == expected


@given(st.text(max_size=30), st.integers(1, 20))
def test_text_is_never_longer_than_the_limit(text: str, most: int) -> None:
    assert len(shortened(text, most)) <= most


@given(st.lists(st.integers()), st.integers(1, 5))
def test_batches_have_all_items_in_order_and_only_the_last_is_shorter(items: list[int], size: int) -> None:
    found = list(batched(items, size))
    assert [item for batch in found for item in batch] == items
    assert all(len(batch) == size for batch in found[:-1])


def test_no_more_items_are_read_than_the_batch_has() -> None:
    numbers = count()
    assert list(islice(batched(numbers, 3), 1)) == [[0, 1, 2]]
    assert next(numbers) == 3
