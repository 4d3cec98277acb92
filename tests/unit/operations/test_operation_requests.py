"""Declared values: read, refused with what would be accepted, and described."""

from __future__ import annotations

from functools import reduce
from typing import Annotated, Any

import jsonschema
import msgspec
import pytest
from msgspec import Meta

from opx.domain.queries import SearchMode
from opx.domain.record import Record
from opx.domain.requests import MAX_NESTING, NOT_BLANK, Request, RequestError, read_request


class Inner(Record, frozen=True, forbid_unknown_fields=True):
    count: Annotated[int, Meta(ge=1, le=20, description="How many.")] = 5
    hash: Annotated[str, Meta(pattern="^[0-9a-f]{4}$", max_length=4, description="A hash.")] | None = None


class Lists(Record, frozen=True, forbid_unknown_fields=True):
    keys: Annotated[tuple[str, ...], Meta(min_length=1, description="Keys.")]


class Named(Request, frozen=True):
    name: Annotated[str, Meta(min_length=1, max_length=10, pattern=NOT_BLANK, description="A name.")]


class Counted(Request, frozen=True):
    count: Annotated[int, Meta(ge=1, le=20, description="How many.")] = 5
    sure: Annotated[bool, Meta(description="Really.")] = False


class Tagged(Request, frozen=True):
    tags: Annotated[tuple[Annotated[str, Meta(max_length=5)], ...], Meta(max_length=2, description="Tags.")] = ()


class Free(Request, frozen=True):
    free: Annotated[dict[str, Any], Meta(description="Any object.")] = msgspec.field(default_factory=dict)


class Moded(Request, frozen=True):
    mode: Annotated[SearchMode, Meta(description="How.")] = SearchMode.BALANCED


class Whole(Request, frozen=True):
    """A field of every kind."""

    name: Annotated[str, Meta(min_length=1, max_length=10, pattern=NOT_BLANK, description="A name.")]
    count: Annotated[int, Meta(ge=1, le=20, description="How many.")] = 5
    tags: Annotated[tuple[Annotated[str, Meta(max_length=5)], ...], Meta(max_length=2, description="Tags.")] = ()
    sure: Annotated[bool, Meta(description="Really.")] | None = None
    share: Annotated[float, Meta(ge=0, le=1, description="A share.")] | None = None
    mode: Annotated[SearchMode, Meta(description="How.")] | None = None
    hash: Annotated[str, Meta(pattern="^[0-9a-f]{4}$", max_length=4, description="A hash.")] | None = None
    inner: Annotated[Inner, Meta(description="An object.")] | None = None
    lists: Annotated[Lists, Meta(description="An object.")] | None = None
    free: Annotated[dict[str, Any], Meta(description="Any object.")] | None = None
    page: Annotated[str | dict[str, Any], Meta(description="A document.")] | None = None


SCHEMA = msgspec.json.schema(Whole)


def read(kind: type[Request], given: dict[str, Any]) -> dict[str, Any]:
    """The fields that are not None, as JSON."""
    return {name: value for name, value in read_request(kind, given).to_json().items() if value not in (None, [])}


def test_values_are_read_with_defaults() -> None:
    assert read(Whole, {"name": "disk", "inner": {"hash": "00ff"}}) == {
        "name": "disk",
        "count": 5,
        "inner": {"count": 5, "hash": "00ff"},
    }


def test_whole_number_may_be_written_with_a_point() -> None:
    count = read(Whole, {"name": "disk", "count": 6.0})["count"]
    assert (count, type(count)) == (6, int)


def test_null_counts_as_absent() -> None:
    assert read(Whole, {"name": "disk", "count": None, "sure": None}) == {"name": "disk", "count": 5}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "name is missing: A name."),
        ({"name": None}, "name is missing: A name."),
        ({"name": 5}, "name must be a string, not 5"),
        ({"name": " \t"}, "name must have at least 1 characters that are not blank"),
        ({"name": "x" * 11}, "name may have at most 10 characters, not 11"),
        ({"name": "a\ud800"}, "name is not valid Unicode"),
        ({"name": "a", "count": True}, "count must be a whole number from 1 to 20, not True"),
        ({"name": "a", "count": 1.5}, "count must be a whole number from 1 to 20, not 1.5"),
        ({"name": "a", "count": "5"}, "count must be a whole number from 1 to 20, not '5'"),
        ({"name": "a", "count": 0}, "count must be a whole number from 1 to 20, not 0"),
        ({"name": "a", "count": 10**30}, "count must be a whole number from 1 to 20, not 1" + "0" * 30),
        ({"name": "a", "share": float("nan")}, "share must be a number from 0 to 1, not nan"),
        ({"name": "a", "share": 1.1}, "share must be a number from 0 to 1, not 1.1"),
        ({"name": "a", "sure": 1}, "sure must be true or false, not 1"),
        ({"name": "a", "tags": "x"}, "tags must be a list, not 'x'"),
        ({"name": "a", "lists": {"keys": []}}, "lists.keys must be a list that is not empty, not []"),
        ({"name": "a", "tags": ["a", "b", "c"]}, "tags may have at most 2 entries, not 3"),
        ({"name": "a", "tags": ["a", 1]}, "tags must be a string, not 1"),
        ({"name": "a", "mode": "slow"}, "mode must be one of fast, balanced, thorough, not 'slow'"),
        ({"name": "a", "hash": "00FF"}, "hash must match [0-9a-f]{4}, not '00FF'"),
        ({"name": "a", "hash": "00ff\n"}, "hash may have at most 4 characters, not 5"),
        ({"name": "a", "inner": []}, "inner must be an object, not []"),
        ({"name": "a", "inner": {"other": 1}}, "unknown field inner.other; there are: count, hash"),
        ({"name": "a", "free": {"x": "\ud800"}}, "free is not valid Unicode"),
        ({"name": "a", "page": 5}, "page must be a string or an object, not 5"),
    ],
)
def test_value_unlike_its_declaration_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as caught:
        read(Whole, given)
    assert str(caught.value) == message


def test_unknown_field_is_refused_by_name() -> None:
    with pytest.raises(RequestError, match="unknown field client_id; there are: name"):
        read(Named, {"name": "a", "client_id": "acme"})


def nested(levels: int) -> dict[str, Any]:
    """Objects within each other."""
    return reduce(lambda inner, _: {"x": inner}, range(levels - 1), {})


@pytest.mark.parametrize("levels", [MAX_NESTING + 1, 600, 20_000])
def test_too_deeply_nested_value_is_refused(levels: int) -> None:
    with pytest.raises(RequestError, match="free may have at most 32 objects and lists within each other"):
        read(Free, {"free": nested(levels)})


@pytest.mark.parametrize("inner", [{}, {"x": "text"}, {"x": None}])
def test_as_deep_as_may_be_is_read(inner: dict[str, Any]) -> None:
    given = {"free": reduce(lambda found, _: {"x": found}, range(MAX_NESTING - 1), inner)}
    assert read(Free, given) == given


@pytest.mark.parametrize(("kind", "name"), [(Named, "name"), (Tagged, "tags"), (Counted, "count"), (Counted, "sure")])
def test_a_refusal_names_what_is_too_deep_to_be_quoted(kind: type[Request], name: str) -> None:
    with pytest.raises(RequestError, match=f"{name} (must be .*, not something nested too deeply|may have at most 32)"):
        read(kind, {name: nested(20_000)})


def test_a_refusal_quotes_only_the_beginning_of_a_long_value() -> None:
    with pytest.raises(RequestError) as caught:
        read(Moded, {"mode": "x" * 100_000})
    assert len(str(caught.value)) < 200


class TestTexts:
    """Values of addresses, and of agents."""

    def test_texts_are_read_in_their_type(self) -> None:
        given = {"name": "disk", "count": "7", "sure": "true", "tags": ["a", "b"]}
        found = read_request(Whole, given, texts=True)
        assert (found.name, found.count, found.sure, found.tags) == ("disk", 7, True, ("a", "b"))

    def test_a_comma_does_not_separate_values(self) -> None:
        assert read_request(Tagged, {"tags": "a,b"}, texts=True).tags == ("a,b",)

    @pytest.mark.parametrize(
        "pair", [("count", "many"), ("count", ""), ("count", "1e1"), ("count", "9" * 5000), ("sure", "yes")]
    )
    def test_string_that_is_no_number_or_flag_is_refused(self, pair: tuple[str, str]) -> None:
        with pytest.raises(RequestError, match=f"{pair[0]} must be "):
            read_request(Counted, dict([pair]), texts=True)

    def test_unknown_parameter_is_refused_by_name(self) -> None:
        with pytest.raises(RequestError, match="unknown field scope; there are: none"):
            read_request(Request, {"scope": "global"}, texts=True)


@pytest.mark.parametrize(
    "value",
    [
        {"name": "disk", "count": 20, "tags": ["a"], "sure": False, "share": 0.5, "mode": "fast"},
        {"name": "disk", "hash": "00ff", "inner": {"count": 1}, "free": {"a": [1]}, "page": {"title": "x"}},
        {"name": "disk", "page": "# Text"},
    ],
)
def test_accepted_value_fits_the_schema(value: dict[str, Any]) -> None:
    read(Whole, value)
    jsonschema.validate(value, SCHEMA)


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
def test_value_that_the_schema_refuses_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, SCHEMA)
    with pytest.raises(RequestError):
        read(Whole, value)
