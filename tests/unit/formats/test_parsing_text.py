"""Markdown with front matter, plain text, and what is common to all text: encoding, line ends, binary data, size."""

from __future__ import annotations

import io
import sys
import tracemalloc
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.domain.ids import normalise
from opx.errors import UnparsableDocumentError
from opx.formats import source as decoding
from opx.formats.registry import parse
from tests.support.parsing_support import a_category, outcome, parsed, refusal, text_of

readable = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]) | st.sampled_from("\n\r\t# -"))


def is_plain_body(text: str) -> bool:
    return bool(text.strip()) and not text.startswith(("---", "\ufeff"))


# -- text and encoding -----------------------------------------------------------------------------------------------


@given(text=readable.filter(is_plain_body), name=st.sampled_from(["a.md", "a.markdown", "a.txt", "a.log"]))
def test_text_round_trips_normalised(text: str, name: str) -> None:
    assert text_of(text, name) == normalise(text)


@given(data=st.binary(), name=st.sampled_from(["a", "a.bin"]))
def test_arbitrary_bytes_of_no_known_extension_are_parsed_or_refused_as_unparsable(data: bytes, name: str) -> None:
    assert outcome(data, name, a_category(title="$.a", content="$.b", tags="$..c")).startswith(("parsed", f"{name}: "))


FUZZED = {
    "a.csv": st.text(st.sampled_from("ab1 ,;|\t\n\r\"'\\é"), max_size=300),
    "a.yaml": st.text(st.sampled_from("ab1 \n\t-:?{}[]&*!|>'\"%@#,.~é"), max_size=120),
    "a.jsonl": st.text(st.sampled_from('a1 \n{}[]:,"\\u0ed8'), max_size=200),
    "a.html": st.text(st.sampled_from('<>/!-?"&#;=abphli td\n'), min_size=1),
    "a.md": st.text(st.sampled_from("---:[]{}&*!|>'\"# ab\n\t"), min_size=1).map("---\na: {}\n---\ntext".format),
}
"""Texts of the characters that a format gives a meaning."""


@pytest.mark.parametrize("name", FUZZED)
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_no_text_fails_but_by_a_refusal(name: str, data: st.DataObject) -> None:
    found = outcome(data.draw(FUZZED[name]), name)
    assert found == "parsed" or found.startswith(f"{name}: ")


def test_line_ends_of_all_systems_become_newlines() -> None:
    assert text_of("a\r\nb\rc\n") == "a\nb\nc\n"


def test_a_line_end_across_two_blocks_stays_one() -> None:
    text = "x" * (8 * 1024 - 1) + "\r\nnext\n"
    assert text_of(text) == text.replace("\r\n", "\n")


def test_a_character_across_two_blocks_is_kept_whole() -> None:
    text = "x" * (8 * 1024 - 1) + "é\n"
    assert text_of(text) == text


def test_pieces_are_lines() -> None:
    assert list(parsed("a\n\nb").lines) == ["a\n", "\n", "b"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_selects_the_encoding_and_is_dropped(encoding: str) -> None:
    assert text_of("Größe\n".encode(encoding)) == "Größe\n"


def test_big_endian_utf16_is_read() -> None:
    assert text_of(b"\xfe\xff" + "Größe".encode("utf-16-be"), "a.txt") == "Größe"


def test_plain_text_and_markdown_without_front_matter_declare_no_title() -> None:
    assert parsed("# Heading\n", "a.txt").title is None
    assert parsed("# Heading\n", "a.md").title is None


# -- format detection ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "a.unknown", "README", "folder.d/a"])
def test_text_of_an_unknown_extension_is_plain(name: str) -> None:
    assert text_of("key: <b>value</b>\n", name) == "key: <b>value</b>\n"


def test_html_without_extension_is_recognised() -> None:
    assert text_of("\n<!-- x -->\n<!DOCTYPE html>\n<title>T</title><p>text</p>", "page") == "text\n"


def test_front_matter_without_extension_is_recognised() -> None:
    assert parsed("---\ntitle: T\n---\ntext", "page").title == "T"


def test_json_without_extension_is_recognised_where_the_category_maps_it() -> None:
    record = '{"a": "T", "b": "text"}'
    assert text_of(record, "record", a_category(title="$.a", content="$.b")) == "text\n"
    assert text_of(record, "record") == record


def test_extensions_are_not_case_sensitive() -> None:
    assert parsed("---\ntitle: T\n---\ntext", "A.MD").title == "T"


def test_many_comments_before_a_page_are_skipped_in_one_go() -> None:
    assert text_of("<!-- -->" * 900 + "x", "page").startswith("<!-- -->")


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.md", "a.txt"])
@pytest.mark.parametrize("blank", ["\n \t\n", "\ufeff\n", "\n" * 100_000])
def test_white_space_alone_is_refused(name: str, blank: str) -> None:
    assert "nothing but white space" in refusal(blank, name)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"%PDF-1.7\n", "a PDF"),
        (b"PK\x03\x04rest", "a ZIP archive or an Office document"),
        (b"\x89PNG\r\n\x1a\nrest", "a PNG image"),
        (b"\x1f\x8b\x08rest", "a gzip archive"),
        (b"\x7fELFrest", "a Linux program"),
    ],
)
def test_known_binary_formats_are_named(data: bytes, kind: str) -> None:
    assert f"it looks like {kind}" in refusal(data)


REFUSED = {
    "a nul byte is refused with its place": ("NUL byte at byte 3", b"abc\0def"),
    "a nul far into the file is refused with its line": ("NUL character in line 20001", "x\n" * 20_000 + "y\0"),
    "many control characters are refused as binary": ("control characters", b"\x01\x02\x03\x04text"),
    "utf32 is refused by name": ("UTF-32", "text".encode("utf-32")),
    "invalid utf8 is refused with byte and line": ("not valid UTF-8 at byte 6 (line 2)", b"first\n\xe9t\xe9\n"),
    "bytes after a byte order mark are counted from the beginning": ("at byte 4 (line 1)", b"\xef\xbb\xbfa\xff"),
    "a character that the end cuts off is refused": ("not valid UTF-8 at byte 4 (line 1)", b"text\xc3"),
    "invalid utf16 is refused": ("not valid UTF-16 at byte 4", b"\xff\xfea\x00\x00\xd8"),
    "invalid utf8 far into the file is refused with byte and line": (
        "not valid UTF-8 at byte 150000 (line 50001)",
        ("é\n" * 50_000).encode() + b"\xff",
    ),
    "a line without a place to cut is refused": ("can't be separated", "\u0b3e" * 70_000),
    "endless combining characters are refused": ("combining characters", "a" + "\u0301\u0316" * 200),
}


@pytest.mark.parametrize(("reason", "data"), REFUSED.values(), ids=REFUSED)
def test_bytes_that_are_no_text_are_refused_with_the_reason(reason: str, data: bytes | str) -> None:
    assert reason in refusal(data)


def test_a_control_character_among_ten_bytes_is_text() -> None:
    assert text_of(b"\x01" + b"x" * 9) == "\x01" + "x" * 9
    assert "2 of its first 10 bytes are control characters" in refusal(b"\x01\x02" + b"x" * 8)


def test_a_log_with_colours_is_text() -> None:
    line = "\x1b[31mERROR\x1b[0m it failed\n"
    assert text_of(line, "a.log") == line


# -- size ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["word ", "漢", "e\u0301", "한", "🙂", "a\u0308\u0301b"])
def test_a_long_line_is_cut_so_that_the_pieces_join_to_the_normalised_text(unit: str) -> None:
    text = unit * (200_000 // len(unit)) + "\nlast"
    pieces = list(parsed(text).lines)
    assert "".join(pieces) == normalise(text)
    assert len(pieces) > 3
    assert max(map(len, pieces)) <= decoding.MAX_PIECE


def test_no_character_after_a_cut_composes_with_what_is_before_it() -> None:
    """Unicode's composites, each by the first character of its own and its second part's decomposition."""
    for code in range(sys.maxunicode + 1):
        parts = unicodedata.normalize("NFD", chr(code))
        if 0xD800 <= code < 0xE000 or len(parts) == 1:
            continue
        composed = unicodedata.normalize("NFC", parts)
        if len(composed) == 1:
            assert not any(map(decoding._starts_afresh, parts[1:])), hex(code)


def test_normal_use_of_combining_characters_is_not_refused() -> None:
    text = "a\u0301\u0316" * 5000
    assert text_of(text) == normalise(text)


class Repeated(io.RawIOBase):
    """A stream of many lines that takes no memory itself."""

    def __init__(self, line: bytes, size: int) -> None:
        self._line = line
        self._left = size

    def read(self, size: int = -1, /) -> bytes:
        count = min(self._left, size)
        self._left -= count
        return (self._line * (count // len(self._line) + 1))[:count]


def peak_of(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["a.md", "a.txt"])
@pytest.mark.parametrize("line", [b"Check the queue depth first.\n", b"no line end at all "])
def test_ten_megabytes_are_read_in_bounded_memory(name: str, line: bytes) -> None:
    def read() -> None:
        source = parse(Repeated(line, 10_000_000), name=name, category=a_category())  # type: ignore[arg-type]
        assert sum(map(len, source.lines)) == 10_000_000

    assert peak_of(read) < 8_000_000


class Slow(io.BytesIO):
    """Returns at most three bytes at a time."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size or 1, 3))


def test_a_stream_that_returns_little_at_a_time_is_read_whole() -> None:
    source = parse(Slow(b"---\ntitle: T\n---\nsome text\n"), name="a.md", category=a_category())
    assert (source.title, "".join(source.lines)) == ("T", "some text\n")


def test_a_stream_that_returns_little_at_a_time_is_recognised() -> None:
    with pytest.raises(UnparsableDocumentError, match="a PDF"):
        parse(Slow(b"%PDF-1.7\n"), name="a.md", category=a_category())


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


REFUSED_FRONT_MATTER = {
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


@pytest.mark.parametrize(("reason", "text"), REFUSED_FRONT_MATTER.values(), ids=REFUSED_FRONT_MATTER)
def test_front_matter_is_refused_with_the_reason(reason: str, text: str) -> None:
    assert reason in refusal(text)


@pytest.mark.parametrize("block", ["- a\n- b\n", "just words\n"])
def test_front_matter_that_is_no_mapping_is_refused(block: str) -> None:
    assert "must be a mapping" in refusal(f"---\n{block}---\ntext")
