"""Filters of streams: the rules of Lambda's event filters, and mistakes in them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.errors import InvalidInputError
from opx_streams.streams.patterns import MAX_DEPTH, checked_pattern, matches

RECORD = {
    "severity": "critical",
    "score": 9.5,
    "count": 300,
    "open": True,
    "owner": None,
    "empty": "",
    "tags": ["disk", "db"],
    "none": [],
    "host": {"name": "web-01", "zone": "a"},
    "parts": [{"kind": "cpu"}, {"kind": "fan"}],
}


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ({"severity": ["critical"]}, True),
        ({"severity": ["minor", "critical"]}, True),
        ({"severity": ["minor"]}, False),
        ({"severity": ["Critical"]}, False),
        ({"severity": [{"equals-ignore-case": "CRITICAL"}]}, True),
        ({"severity": ["critical"], "open": [True]}, True),
        ({"severity": ["critical"], "open": [False]}, False),
        ({"owner": [None]}, True),
        ({"severity": [None]}, False),
        ({"absent": [None]}, False),
        ({"empty": [""]}, True),
        ({"count": [300]}, True),
        ({"count": [300.0]}, True),
        ({"count": ["300"]}, False),
        ({"open": [1]}, False),
        ({"score": [{"numeric": [">", 9, "<=", 9.5]}]}, True),
        ({"score": [{"numeric": [">", 9.5]}]}, False),
        ({"count": [{"numeric": ["=", 300]}]}, True),
        ({"severity": [{"numeric": [">", 0]}]}, False),
        ({"open": [{"numeric": [">", 0]}]}, False),
        ({"severity": [{"prefix": "crit"}]}, True),
        ({"severity": [{"suffix": "cal"}]}, True),
        ({"severity": [{"prefix": "cal"}]}, False),
        ({"count": [{"prefix": "3"}]}, False),
        ({"severity": [{"anything-but": ["minor"]}]}, True),
        ({"severity": [{"anything-but": "critical"}]}, False),
        ({"absent": [{"anything-but": ["minor"]}]}, False),
        ({"severity": [{"exists": True}]}, True),
        ({"severity": [{"exists": False}]}, False),
        ({"absent": [{"exists": False}]}, True),
        ({"none": [{"exists": False}]}, True),
        ({"tags": ["db"]}, True),
        ({"tags": ["net"]}, False),
        ({"host": {"name": [{"prefix": "web-"}], "zone": ["a"]}}, True),
        ({"host": {"name": ["db-01"]}}, False),
        ({"absent": {"name": [{"exists": False}]}}, True),
        ({"absent": {"name": [{"exists": True}]}}, False),
        ({"severity": {"name": ["a"]}}, False),
        ({"parts": {"kind": ["fan"]}}, True),
        ({"parts": {"kind": ["disk"]}}, False),
        ({"$or": [{"severity": ["minor"]}, {"count": [300]}]}, True),
        ({"$or": [{"severity": ["minor"]}, {"count": [1]}]}, False),
        ({"severity": ["critical"], "$or": [{"count": [1]}, {"count": [2]}]}, False),
    ],
)
def test_a_record_fits_if_all_fields_do(pattern: dict[str, Any], fits: bool) -> None:
    assert matches(checked_pattern(pattern), RECORD) is fits


@pytest.mark.parametrize("record", [None, "critical", 5, ["critical"], [RECORD]])
def test_record_that_is_no_object_matches_no_pattern(record: Any) -> None:
    assert not matches({"severity": [{"exists": False}]}, record)


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ({}, "a filter is an object"),
        ("severity", "a filter is an object"),
        ({"severity": "critical"}, "'severity' must be a list"),
        ({"host": {"name": []}}, "'host.name' must be a list"),
        ({"host": {}}, "'host' is an object without fields"),
        ({"a": [["b"]]}, "a list within a list"),
        ({"a": [{"wildcard": "x*"}]}, "unknown test"),
        ({"a": [{"prefix": "x", "suffix": "y"}]}, "unknown test"),
        ({"a": [{"prefix": 5}]}, "not a valid argument of prefix"),
        ({"a": [{"exists": "yes"}]}, "exists"),
        ({"a": [{"numeric": [">"]}]}, "numeric"),
        ({"a": [{"numeric": ["~", 5]}]}, "numeric"),
        ({"a": [{"numeric": [">", "5"]}]}, "numeric"),
        ({"a": [{"numeric": [">", True]}]}, "numeric"),
        ({"a": [{"anything-but": []}]}, "anything-but"),
        ({"a": [{"anything-but": {"prefix": "x"}}]}, "anything-but"),
        ({"a": [{"numeric": [">", float("nan")]}]}, "JSON"),
        ({"a": [object()]}, "JSON"),
        ({"$or": [{"a": [1]}]}, "two or more objects"),
        ({"$or": {"a": [1]}}, "two or more objects"),
        ({"a": ["x" * 4096]}, "longer than the 4,096 bytes"),
    ],
)
def test_an_invalid_rule_is_refused_with_its_field(pattern: Any, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        checked_pattern(pattern)


def test_nothing_is_nested_without_end() -> None:
    pattern: dict[str, Any] = {"a": [1]}
    for _ in range(MAX_DEPTH + 1):
        pattern = {"a": pattern}
    with pytest.raises(InvalidInputError, match="deep"):
        checked_pattern(pattern)


NAMES = st.sampled_from(["a", "b", "$or", "numeric", "exists"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
SIGNS = st.sampled_from(["=", "<", "<=", ">", ">="])
TESTS = (
    st.builds(lambda sign, number: {"numeric": [sign, number]}, SIGNS, NUMBERS)
    | st.builds(lambda name, text: {name: text}, st.sampled_from(["prefix", "suffix", "equals-ignore-case"]), st.text())
    | st.builds(lambda values: {"anything-but": values}, st.lists(NUMBERS | st.text(), min_size=1, max_size=3))
    | st.builds(lambda there: {"exists": there}, st.booleans())
)
LEAVES = st.lists(SCALARS | TESTS, min_size=1, max_size=3)
RULES = st.recursive(
    st.dictionaries(st.sampled_from(["a", "b", "numeric"]), LEAVES, min_size=1, max_size=3),
    lambda inner: (
        st.dictionaries(st.sampled_from(["a", "b"]), inner, min_size=1, max_size=2)
        | st.builds(lambda one, other: {"$or": [one, other]}, inner, inner)
    ),
    max_leaves=5,
)


@given(pattern=RULES | JSON, record=JSON)
def test_an_accepted_pattern_can_be_matched_against_any_record(pattern: Any, record: Any) -> None:
    try:
        checked = checked_pattern(pattern)
    except InvalidInputError:
        return
    assert matches(checked, record) in (True, False)
