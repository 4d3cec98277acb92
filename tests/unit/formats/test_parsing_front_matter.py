"""Front matter of Markdown files."""

from __future__ import annotations

import pytest

from tests.support.parsing_support import parsed, refusal, text_of


def test_front_matter_gives_title_and_metadata_and_leaves_the_text() -> None:
    source = parsed("---\ntitle: Disk full\ntags: [linux, disk]\n---\n\n# Steps\n")
    assert source.title == "Disk full"
    assert source.metadata == {"title": "Disk full", "tags": ["linux", "disk"]}
    assert "".join(source.lines) == "\n# Steps\n"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2025-02-04", "2025-02-04"),
        ("2025-2-4 1:30:00", "2025-02-04T01:30:00"),
        ("2025-02-04 10:30:00", "2025-02-04T10:30:00"),
        ("1.10", "1.10"),
        ("007", "007"),
        ("on", "on"),
        ('"1.8"', "1.8"),
        ("~", None),
        ("", None),
    ],
)
def test_scalars_stay_as_written_and_dates_become_iso(written: str, read: str | None) -> None:
    assert parsed(f"---\nvalue: {written}\n---\ntext").metadata == {"value": read}


def test_nested_values_are_kept() -> None:
    assert parsed("---\na:\n  b: [1, {c: 2}]\n---\ntext").metadata == {"a": {"b": ["1", {"c": "2"}]}}


def test_three_dots_close_front_matter() -> None:
    assert text_of("---\ntitle: T\n...\ntext") == "text"


def test_empty_front_matter_is_allowed() -> None:
    assert text_of("---\n---\ntext") == "text"


def test_a_title_that_is_no_text_is_left_to_validation() -> None:
    source = parsed("---\ntitle: [a]\n---\ntext")
    assert (source.title, source.metadata) == (None, {"title": ["a"]})


def test_front_matter_after_a_byte_order_mark_is_found() -> None:
    assert parsed("\ufeff---\r\ntitle: T\r\n---\r\ntext").title == "T"


@pytest.mark.parametrize(
    "text",
    [
        "---\n\ntitle: no\n\n---\n",
        "---\nSome text under a rule.\n",
        "text\n---\ntitle: T\n---\n",
        " ---\ntitle: T\n---\n",
        "----\ntitle: T\n---\n",
        "---",
    ],
)
def test_lines_that_are_no_front_matter_stay_in_the_text(text: str) -> None:
    source = parsed(text)
    assert source.metadata == {}
    assert "".join(source.lines) == text


def test_plain_text_has_no_front_matter() -> None:
    text = "---\ntitle: T\n---\ntext"
    assert text_of(text, "a.txt") == text


@pytest.mark.parametrize("body", ["", "\n \n"])
def test_front_matter_without_text_is_refused(body: str) -> None:
    assert "only front matter" in refusal(f"---\ntitle: T\n---\n{body}")


REFUSED = {
    "a yaml error is refused with its line in the file": (
        "not valid YAML in line 3",
        "---\ntitle: T\ntags: a: b\n---\ntext",
    ),
    "missing closing line is refused": ("no line `---` closes the front matter", "---\ntitle: T\n\n# Heading\n"),
    "front matter over 64 kib is refused": ("in the first 64 KiB", "---\n" + "key: value\n" * 7000 + "---\ntext"),
    "aliases are refused": ("YAML alias in line 3", "---\na: &x [1]\nb: *x\n---\ntext"),
    "deep nesting is refused": ("nested deeper", f"---\na: {'[' * 5000}{']' * 5000}\n---\ntext"),
    "a key that is given twice is refused": ("'title' again in line 3", "---\ntitle: a\ntitle: b\n---\ntext"),
    "a date that does not exist is refused": ("'2025-13-45' in line 2", "---\ndate: 2025-13-45\n---\ntext"),
    "a key that is a list is refused": ("key in line 2", "---\n[a]: b\n---\ntext"),
}


@pytest.mark.parametrize(("reason", "text"), REFUSED.values(), ids=REFUSED)
def test_front_matter_is_refused_with_the_reason(reason: str, text: str) -> None:
    assert reason in refusal(text)


@pytest.mark.parametrize("block", ["- a\n- b\n", "just words\n"])
def test_front_matter_that_is_no_mapping_is_refused(block: str) -> None:
    assert "must be a mapping" in refusal(f"---\n{block}---\ntext")
