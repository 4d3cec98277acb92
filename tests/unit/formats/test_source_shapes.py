"""Records of vendors' replies: ignored fields, missing values, and the messages of refusals."""

from __future__ import annotations

import math
from typing import Any

import pytest

from opx.errors import SourceShapeError
from opx.formats.data.replies import (
    Filled,
    Loose,
    Named,
    Names,
    NeededWords,
    OddRecordError,
    Shape,
    Words,
    each_of,
    odd,
    shaped,
    texts_of,
)


class Part(Shape, frozen=True, rename="camel"):
    created_at: Filled
    label: str = ""


class Thing(Shape, frozen=True):
    number: int
    title: Filled
    score: float = 0.0
    flag: bool = False
    owner: Loose[Named] = Named()
    tags: Names = ()
    parts: tuple[Part, ...] = ()
    count: Loose[int] = 7
    word: Words = ""


BARE = {"number": 1, "title": "t"}


def test_undeclared_fields_are_ignored_and_missing_ones_have_their_default() -> None:
    assert shaped(Thing, {**BARE, "more": {"a": [1]}}) == Thing(1, "t")


@pytest.mark.parametrize("field", ["score", "flag", "owner", "tags", "parts", "count", "word"])
def test_null_counts_as_missing(field: str) -> None:
    assert shaped(Thing, {**BARE, field: None}) == Thing(1, "t")
    with pytest.raises(SourceShapeError, match="'title' is missing"):
        shaped(Thing, {"number": 1, "title": None})


@pytest.mark.parametrize("given", [{"owner": "Ann"}, {"owner": {"name": 5}}, {"count": "many"}, {"count": True}])
def test_a_loose_value_of_another_type_counts_as_missing(given: dict[str, Any]) -> None:
    assert shaped(Thing, {**BARE, **given}) == Thing(1, "t")


def test_names_are_strings_or_objects_with_one_and_the_rest_is_left_out() -> None:
    found = shaped(Thing, {**BARE, "tags": ["a", {"name": "b"}, 5, None, {"name": None}, ""]})
    assert texts_of(found.tags) == ["a", "b"]


def test_words_are_strings_or_numbers_that_can_be_stored() -> None:
    class Record(Shape, frozen=True):
        words: NeededWords

    found = [shaped(Record, {"words": given}).words for given in (" a ", 7, 1.5, "x\0y", "\ud800z")]
    assert found == ["a", "7", "1.5", "xy", "\ufffdz"]
    wrong_ones: list[Any] = ["", " ", None, True, [], {}]
    for wrong in wrong_ones:
        with pytest.raises(SourceShapeError, match="'words'"):
            shaped(Record, {"words": wrong})


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "a thing: the field 'number' is missing; the source's format may have changed"),
        ({**BARE, "number": "1"}, "the field 'number' should be a whole number, not a string"),
        ({**BARE, "number": True}, "the field 'number' should be a whole number, not true or false"),
        ({**BARE, "title": " "}, "the field 'title' should be a string that is not empty"),
        ({**BARE, "flag": 1}, "the field 'flag' should be true or false, not a whole number"),
        ({**BARE, "tags": {}}, "the field 'tags' should be a list, not an object"),
        ({**BARE, "parts": [{"createdAt": "x"}, {}]}, r"the field 'parts\[1\].createdAt' is missing"),
        ({**BARE, "parts": [5]}, r"the field 'parts\[0\]' should be an object, not a whole number"),
        ([], "it should be an object with 'number' and 'title', not a list"),
        (None, "it should be an object with 'number' and 'title', not null"),
    ],
)
def test_a_field_of_another_type_is_named_with_what_was_expected(given: Any, problem: str) -> None:
    with pytest.raises(SourceShapeError, match=problem):
        shaped(Thing, given, "a thing")


def test_half_a_surrogate_pair_in_place_of_a_list_is_refused() -> None:
    with pytest.raises(SourceShapeError):
        shaped(Thing, {"number": 1, "title": "t", "parts": "\ud800"})


def test_a_record_may_be_odd_alone() -> None:
    with pytest.raises(OddRecordError, match="'title' is missing"):
        odd(Thing, {"number": 1})


def test_each_of_a_list_is_read() -> None:
    assert each_of(Named, [{"name": "a"}, {}], "names") == [Named("a"), Named()]
    with pytest.raises(SourceShapeError, match="names: it should be an object, not a string"):
        each_of(Named, ["a"], "names")


def test_numbers_may_be_of_either_kind() -> None:
    assert math.isclose(shaped(Thing, {**BARE, "score": 2}).score, 2.0)
