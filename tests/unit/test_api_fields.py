"""Declared values: read, refused with what would be accepted, and described."""

from __future__ import annotations

from functools import reduce
from typing import Any

import jsonschema
import pytest

from opx.api.fields import MAX_NESTING, Field, Kind, object_schema, read_fields, read_parameters
from opx.operations.requests import RequestError

NAME = Field("name", Kind.TEXT, "A name.", required=True, minimum=1, maximum=10)
COUNT = Field("count", Kind.WHOLE, "How many.", default=5, minimum=1, maximum=20)
TAGS = Field("tags", Kind.TEXT, "Tags.", repeated=True, maximum=5, most=2)
SURE = Field("sure", Kind.FLAG, "Really.")
SHARE = Field("share", Kind.NUMBER, "A share.", minimum=0, maximum=1)
MODE = Field("mode", Kind.TEXT, "How.", choices=("fast", "balanced"))
HASH = Field("hash", Kind.TEXT, "A hash.", pattern="[0-9a-f]{4}")
KEYS = Field("keys", Kind.TEXT, "Keys.", required=True, repeated=True)
INNER = Field("inner", Kind.OBJECT, "An object.", fields=(COUNT, HASH))
LISTS = Field("lists", Kind.OBJECT, "An object.", fields=(KEYS,))
FREE = Field("free", Kind.OBJECT, "Any object.")
PAGE = Field("page", Kind.DOCUMENT, "A document.")
FIELDS = (NAME, COUNT, TAGS, SURE, SHARE, MODE, HASH, INNER, LISTS, FREE, PAGE)


def test_values_are_read_with_defaults() -> None:
    assert read_fields(FIELDS, {"name": "disk", "inner": {"hash": "00ff"}}) == {
        "name": "disk",
        "count": 5,
        "inner": {"count": 5, "hash": "00ff"},
    }


def test_whole_number_may_be_written_with_a_point() -> None:
    count = read_fields(FIELDS, {"name": "disk", "count": 6.0})["count"]
    assert (count, type(count)) == (6, int)


def test_null_counts_as_absent() -> None:
    assert read_fields(FIELDS, {"name": "disk", "count": None, "sure": None}) == {"name": "disk", "count": 5}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "name is missing: A name."),
        ({"name": None}, "name is missing: A name."),
        ({"name": 5}, "name must be a text, not 5"),
        ({"name": " \t"}, "name must have at least 1 characters that are not blank"),
        ({"name": "x" * 11}, "name may have at most 10 characters, not 11"),
        ({"name": "a\ud800"}, "name is not valid Unicode"),
        ({"name": "a", "count": True}, "count must be a whole number, not True"),
        ({"name": "a", "count": 1.5}, "count must be a whole number, not 1.5"),
        ({"name": "a", "count": "5"}, "count must be a whole number, not '5'"),
        ({"name": "a", "count": 0}, "count must be from 1 to 20, not 0"),
        ({"name": "a", "count": 10**30}, "count must be from 1 to 20, not 1" + "0" * 30),
        ({"name": "a", "share": float("nan")}, "share must be a number, not nan"),
        ({"name": "a", "share": 1.1}, "share must be from 0 to 1, not 1.1"),
        ({"name": "a", "sure": 1}, "sure must be true or false, not 1"),
        ({"name": "a", "tags": "x"}, "tags must be a list, not 'x'"),
        ({"name": "a", "lists": {"keys": []}}, "keys must be a list that is not empty, not []"),
        ({"name": "a", "tags": ["a", "b", "c"]}, "tags may have at most 2 entries, not 3"),
        ({"name": "a", "tags": ["a", 1]}, "tags must be a text, not 1"),
        ({"name": "a", "mode": "slow"}, "mode must be one of fast, balanced, not 'slow'"),
        ({"name": "a", "hash": "00FF"}, "hash must match [0-9a-f]{4}, not '00FF'"),
        ({"name": "a", "hash": "00ff\n"}, "hash must match [0-9a-f]{4}, not '00ff\\n'"),
        ({"name": "a", "inner": []}, "inner must be an object, not []"),
        ({"name": "a", "inner": {"other": 1}}, "unknown field inner.other; there are: count, hash"),
        ({"name": "a", "free": {"x": "\ud800"}}, "free is not valid Unicode"),
        ({"name": "a", "page": 5}, "page must be a text or an object, not 5"),
    ],
)
def test_what_is_not_as_declared_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_fields(FIELDS, given)
    assert str(caught.value) == message


def test_unknown_field_is_refused_by_name() -> None:
    with pytest.raises(RequestError, match="unknown field client_id; there are: name"):
        read_fields((NAME,), {"name": "a", "client_id": "acme"})


def nested(levels: int) -> dict[str, Any]:
    """Objects within each other."""
    return reduce(lambda inner, _: {"x": inner}, range(levels - 1), {})


@pytest.mark.parametrize("levels", [MAX_NESTING + 1, 600, 20_000])
def test_what_is_nested_too_deeply_is_refused(levels: int) -> None:
    with pytest.raises(RequestError, match="free may have at most 32 objects and lists within each other"):
        read_fields((FREE,), {"free": nested(levels)})


@pytest.mark.parametrize("inner", [{}, {"x": "text"}, {"x": None}])
def test_as_deep_as_may_be_is_read(inner: dict[str, Any]) -> None:
    given = {"free": reduce(lambda found, _: {"x": found}, range(MAX_NESTING - 1), inner)}
    assert read_fields((FREE,), given) == given


@pytest.mark.parametrize("field", [NAME, TAGS, COUNT, SURE])
def test_a_refusal_names_what_is_too_deep_to_be_quoted(field: Field) -> None:
    with pytest.raises(RequestError, match=f"{field.name} must be .*, not something nested too deeply"):
        field.read(nested(20_000))


def test_a_refusal_quotes_only_the_beginning_of_a_long_value() -> None:
    with pytest.raises(RequestError) as caught:
        read_fields((MODE,), {"mode": "x" * 100_000})
    assert len(str(caught.value)) < 200


class TestParameters:
    def test_texts_are_read_in_their_type(self) -> None:
        pairs = [("name", "disk"), ("count", "7"), ("sure", "true"), ("tags", "a"), ("tags", "b")]
        assert read_parameters(FIELDS, pairs) == {"name": "disk", "count": 7, "sure": True, "tags": ("a", "b")}

    def test_a_comma_does_not_separate_values(self) -> None:
        assert read_parameters((TAGS,), [("tags", "a,b")])["tags"] == ("a,b",)

    def test_one_value_given_twice_is_refused(self) -> None:
        with pytest.raises(RequestError, match="name is given 2 times; it takes one value"):
            read_parameters((NAME,), [("name", "a"), ("name", "b")])

    @pytest.mark.parametrize(
        "pair", [("count", "many"), ("count", ""), ("count", "1e1"), ("count", "9" * 5000), ("sure", "yes")]
    )
    def test_what_is_no_number_or_flag_is_refused(self, pair: tuple[str, str]) -> None:
        with pytest.raises(RequestError, match=f"{pair[0]} must be "):
            read_parameters((COUNT, SURE), [pair])

    def test_unknown_parameter_is_refused_by_name(self) -> None:
        with pytest.raises(RequestError, match="unknown field scope; there are: none"):
            read_parameters((), [("scope", "global")])


@pytest.mark.parametrize(
    "value",
    [
        {"name": "disk", "count": 20, "tags": ["a"], "sure": False, "share": 0.5, "mode": "fast"},
        {"name": "disk", "hash": "00ff", "inner": {"count": 1}, "free": {"a": [1]}, "page": {"title": "x"}},
        {"name": "disk", "page": "# Text"},
    ],
)
def test_what_is_accepted_fits_the_schema(value: dict[str, Any]) -> None:
    read_fields(FIELDS, value)
    jsonschema.validate(value, object_schema(FIELDS))


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"name": "x" * 11},
        {"name": "a", "count": 21},
        {"name": "a", "other": 1},
        {"name": "a", "mode": "slow"},
        {"name": "a", "hash": "xyz"},
        {"name": "a", "lists": {"keys": []}},
        {"name": "a", "page": 1},
        {"name": "a", "inner": {"other": 1}},
    ],
)
def test_what_the_schema_refuses_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, object_schema(FIELDS))
    with pytest.raises(RequestError):
        read_fields(FIELDS, value)
