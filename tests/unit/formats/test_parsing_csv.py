"""CSV, JSON Lines, and configuration files."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.ingestion.chunking import ChunkOwner
from tests.support.parsing_support import a_category, chunk_document, outcome, parsed, refusal, text_of


def test_rows_become_a_table_under_the_header() -> None:
    assert text_of("host,port\ndb-1,5432\n", "a.csv") == "| host | port |\n| --- | --- |\n| db-1 | 5432 |\n\n"


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found_out(separator: str) -> None:
    text = f"host{separator}note\ndb-1{separator}primary\ndb-2{separator}replica\n"
    assert "| db-2 | replica |" in text_of(text, "a.csv")


def test_a_byte_order_mark_is_no_part_of_the_first_name() -> None:
    assert text_of("host;port\ndb;1\n".encode("utf-8-sig"), "a.csv").startswith("| host |")


def test_cells_may_hold_separators_and_line_ends_and_bars() -> None:
    assert '| a, b "c" d\\|e | 1 |' in text_of('x,y\n"a, b ""c""\nd|e",1\n', "a.csv")


def test_a_single_column_is_a_table() -> None:
    assert text_of("name\nalpha beta\n", "a.csv") == "| name |\n| --- |\n| alpha beta |\n\n"


def test_rows_of_numbers_alone_have_no_header() -> None:
    assert text_of("1,2\n3,4\n", "a.csv").startswith("| Column 1 | Column 2 |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |\n")


def test_a_header_alone_is_a_table() -> None:
    assert text_of("a,b\n", "a.csv") == "| a | b |\n| --- | --- |\n\n"


def test_every_row_is_in_a_chunk_with_the_names_of_the_columns() -> None:
    rows = "".join(f"host-{n},{n},in use since {n}\n" for n in range(500))
    text = text_of(f"hostname,port,remark\n{rows}", "a.csv")
    chunks = list(chunk_document(text.splitlines(keepends=True), ChunkOwner("d", "t", "notes")))
    assert len(chunks) > 5
    portions = [portion for portion in text.split("\n\n") if portion]
    assert all(portion.startswith("| hostname | port | remark |\n| --- |") for portion in portions)
    assert all(any(portion in chunk.content for chunk in chunks) for portion in portions)
    assert text.count("host-") == 500


def test_rows_of_many_columns_name_each_value() -> None:
    names = ",".join(f"a_long_name_of_column_{n}" for n in range(30))
    values = ",".join(f"v{n}" for n in range(30))
    text = text_of(f"{names}\n{values}\n", "a.csv")
    assert "- a_long_name_of_column_0: v0\n  a_long_name_of_column_1: v1\n" in text


def test_a_row_with_a_long_cell_names_each_value() -> None:
    assert text_of(f"a,b\n1,{'long ' * 400}\n", "a.csv").startswith("- a: 1\n  b: long long")


def test_uneven_rows_are_kept_and_remarked_on() -> None:
    found = parsed("a,b\n1,2\n3\n4,5,6\n", "a.csv")
    assert "| 3 |  |\n| 4 | 5 | 6 |\n" in "".join(found.lines)
    assert [one.text for one in found.remarks] == [
        "a.csv: 2 rows don't have 2 cells as the header has, the first in line 3"
    ]


def test_a_quote_that_is_not_closed_costs_no_row() -> None:
    rows = "".join(f"r{n},{n}\n" for n in range(30_000))
    found = parsed(f'a,b\nx,"never closed\n{rows}', "a.csv")
    text = "".join(found.lines)
    assert len(re.findall(r"\br\d+ ", text)) == 30_000
    assert "1 rows aren't quoted by the rules, the first in line 2" in " ".join(one.text for one in found.remarks)


def test_a_line_of_no_table_is_refused() -> None:
    assert "256 Ki characters" in refusal("x" * 300_000, "a.csv")


def test_a_file_of_empty_rows_is_refused() -> None:
    assert "nothing but white space" in refusal(",,\n\n", "a.csv")


def test_rows_are_read_as_they_are_needed() -> None:
    lines = parsed("a,b\n" + "1,2\n" * 200_000, "a.csv").lines
    assert next(lines) == "| a | b |\n"


def test_a_hostile_header_does_not_multiply() -> None:
    text = f"{','.join('n' * 5_000 for _ in range(40))}\n" + "1\n" * 2_000
    assert len(text_of(text, "a.csv")) < 3 * len(text)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.text(st.sampled_from('ab ,"\n;'), max_size=5), min_size=2, max_size=3), min_size=1, max_size=9)
)
def test_no_letter_is_lost(rows: list[list[str]]) -> None:
    text = "".join(",".join('"' + cell.replace('"', '""') + '"' for cell in row) + "\n" for row in rows)
    found = outcome(text, "a.csv")
    if found == "parsed":
        shown = text_of(text, "a.csv")
        assert shown.count("a") >= sum(cell.count("a") for row in rows for cell in row)


def test_a_record_is_a_section_under_its_name() -> None:
    assert (
        text_of('{"name": "db-1", "ports": [1, 2]}\n', "a.jsonl")
        == "## db-1\n\n- name: db-1\n- ports:\n  - 1\n  - 2\n\n"
    )


def test_records_without_a_name_are_paragraphs() -> None:
    assert text_of('{"level": 1}\n{"level": 2}\n', "a.ndjson") == "- level: 1\n\n- level: 2\n\n"


def test_the_mapping_of_the_category_is_used_where_it_fits() -> None:
    lines = '{"t": "One", "c": "Text"}\n{"other": 1}\n'
    assert text_of(lines, "a.jsonl", a_category(title="$.t", content="$.c")) == "## One\n\nText\n\n- other: 1\n\n"


@pytest.mark.parametrize("line", ["no json", "[1]", "{", "[" * 100_000, '{"a": ' * 500 + "1" + "}" * 500, "1" * 5_000])
def test_other_lines_are_kept_and_remarked_on(line: str) -> None:
    found = parsed(f'{{"a": 1}}\n{line}\n{{"b": 2}}\n', "a.jsonl")
    text = "".join(found.lines)
    assert "- a: 1\n" in text
    assert "- b: 2\n" in text
    assert line in text.replace("\n", "")
    assert "1 lines are no JSON objects, the first is line 2" in found.remarks[0].text


def test_texts_in_records_make_no_headings() -> None:
    assert "\\# Not one" in text_of(json.dumps({"a": "# Not one\nx\n==="}), "a.jsonl")


def test_a_huge_record_is_refused() -> None:
    assert "more than 1,048,576 characters" in refusal(f'{{"a": "{"x" * 1_100_000}"}}', "a.jsonl")


def test_records_are_read_as_they_are_needed() -> None:
    assert next(parsed('{"a": 1}\n' * 50_000, "a.jsonl").lines) == "- a: 1\n"


@pytest.mark.parametrize(("name", "language"), [("a.toml", "toml"), ("a.ini", "ini"), ("prod.env", "sh")])
def test_configuration_is_a_code_block_under_its_path(name: str, language: str) -> None:
    assert text_of("[a]\nb = 1\n", name) == f"# {name}\n\n```{language}\n[a]\nb = 1\n```\n\n"
    assert parsed("[a]\n", name).title == name


def test_long_configuration_is_cut_into_code_blocks_that_chunks_hold_whole() -> None:
    text = text_of("".join(f"[section-{n}]\nkey = value of {n}\n\n" for n in range(400)), "a.ini")
    chunks = list(chunk_document(text.splitlines(keepends=True), ChunkOwner("d", "a.ini", "notes")))
    assert len(chunks) > 5
    blocks = re.findall(r"```ini\n.*?```\n", text, re.DOTALL)
    assert all(any(block in chunk.content for chunk in chunks) for block in blocks)
    assert text.count("[section-") == 400


def test_a_very_long_line_is_kept() -> None:
    assert text_of("x" * 300_000, "a.conf").count("x") == 300_000


def test_blank_configuration_is_refused() -> None:
    assert "nothing but white space" in refusal("\n", "a.conf")
