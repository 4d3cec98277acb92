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


def test_a_yaml_error_is_refused_with_its_line_in_the_file() -> None:
    assert "not valid YAML in line 3" in refusal("---\ntitle: T\ntags: a: b\n---\ntext")


def test_missing_closing_line_is_refused() -> None:
    assert "no line `---` closes the front matter" in refusal("---\ntitle: T\n\n# Heading\n")


def test_front_matter_over_64_kib_is_refused() -> None:
    assert "in the first 64 KiB" in refusal("---\n" + "key: value\n" * 7000 + "---\ntext")


@pytest.mark.parametrize("block", ["- a\n- b\n", "just words\n"])
def test_front_matter_that_is_no_mapping_is_refused(block: str) -> None:
    assert "must be a mapping" in refusal(f"---\n{block}---\ntext")


def test_aliases_are_refused() -> None:
    assert "YAML alias in line 3" in refusal("---\na: &x [1]\nb: *x\n---\ntext")


def test_deep_nesting_is_refused() -> None:
    assert "nested deeper" in refusal(f"---\na: {'[' * 5000}{']' * 5000}\n---\ntext")


def test_a_key_that_is_given_twice_is_refused() -> None:
    assert "'title' again in line 3" in refusal("---\ntitle: a\ntitle: b\n---\ntext")


def test_a_date_that_does_not_exist_is_refused() -> None:
    assert "'2025-13-45' in line 2" in refusal("---\ndate: 2025-13-45\n---\ntext")


def test_a_key_that_is_a_list_is_refused() -> None:
    assert "key in line 2" in refusal("---\n[a]: b\n---\ntext")
