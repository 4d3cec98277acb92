"""Parsing of log queries to words that can't be commands of the store."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.errors import InvalidInputError
from opx.ports.telemetry import LogQuery
from opx_aws.telemetry import insights_query
from opx_telemetry.logs import Words, read_words

ATTACKS = [
    "x/ | fields @message | unmask @message",
    '"a" | SOURCE "/other/group"',
    "a\\/ or 1=1",
    "a/i # comment",
    "a\n| limit 10000",
    "a') | unmask(@message",
    "/(?i)a/ or @message like /b",
    "ünï/code | stats count(*)",
]
FIXED = r"(fields @timestamp, @logStream, @message \| sort @timestamp desc \| limit \d+)"
WORD = r"(\w|\.|\\s\+|\.\{1,4\})+"
QUERY = re.compile(rf"(filter @message (not )?like /\(\?i\){WORD}/ \| )*{FIXED}", re.ASCII)


def built(text: str) -> str:
    words = read_words(text)
    return insights_query(LogQuery("group", 0, 1, words.wanted, words.unwanted))


def test_words_phrases_and_exclusions_are_read() -> None:
    read = read_words('timeout  "connection   reset" -healthcheck -"all good"')
    assert read == Words(("timeout", "connection reset"), ("healthcheck", "all good"))


def test_a_star_alone_is_every_line() -> None:
    assert read_words(" * ") == Words()
    assert Words().fit("anything")


@pytest.mark.parametrize("text", ["", "   ", '"', 'a "b', '""', "###", "-###", "é", "* *", " ".join("abcdefghijk")])
def test_unsearchable_query_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        read_words(text)


@pytest.mark.parametrize("text", ["-a.b", "-a/b", '-"a|b"', "-größe"])
def test_exclusion_with_punctuation_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="can't be left out"):
        read_words(f"x {text}")


def test_case_and_spaces_do_not_matter() -> None:
    words = read_words('"connection reset" ERROR')
    assert words.fit("error: Connection\t  RESET by peer")
    assert not words.fit("error: connection was reset")


def test_line_with_an_unwanted_word_does_not_fit() -> None:
    assert not read_words("error -retry").fit("error, will RETRY")


def test_query_is_made_of_filters_and_a_fixed_end() -> None:
    assert built('error "connection reset" -retry') == (
        r"filter @message like /(?i)error/ | filter @message like /(?i)connection\s+reset/"
        r" | filter @message not like /(?i)retry/"
        r" | fields @timestamp, @logStream, @message | sort @timestamp desc | limit 50"
    )


@pytest.mark.parametrize(
    ("show", "end"),
    [
        ("over_time", "stats count(*) as lines by bin(300s) as time | sort time desc | limit 7"),
        ("by_stream", "stats count(*) as lines by @logStream | sort lines desc | limit 7"),
        ("patterns", "pattern @message | limit 7"),
    ],
)
def test_aggregation_is_one_of_fixed_query_endings(show: str, end: str) -> None:
    query = LogQuery("group", 0, 1, ("a",), show=show, limit=7, bin_seconds=300)
    assert insights_query(query) == f"filter @message like /(?i)a/ | {end}"


@pytest.mark.parametrize("text", ATTACKS)
def test_commands_in_the_words_do_not_get_into_the_query(text: str) -> None:
    try:
        query = built(text)
    except InvalidInputError:
        return
    assert QUERY.fullmatch(query), query
    assert "unmask @" not in query
    assert 'SOURCE "' not in query


@given(st.text(max_size=80))
def test_no_text_gets_anything_but_words_into_the_query(text: str) -> None:
    try:
        query = built(text)
    except InvalidInputError:
        return
    assert QUERY.fullmatch(query)


@given(st.text(min_size=1, max_size=30))
def test_line_that_fits_is_found_by_the_expression_too(text: str) -> None:
    try:
        words = read_words(text)
    except InvalidInputError:
        return
    line = "before " + " ".join(words.wanted) + " after"
    for found in re.findall(r"(?<!not )like /(.*?)/ ", insights_query(LogQuery("g", 0, 1, words.wanted))):
        assert re.search(found, line, re.DOTALL)
