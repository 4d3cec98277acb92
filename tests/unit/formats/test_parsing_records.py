"""JSON Lines, and configuration files."""

from __future__ import annotations

import json
import re

import pytest

from opx.ingestion.chunking import ChunkOwner
from tests.support.chunking_support import chunk_document
from tests.support.parsing_support import a_category, parsed, refusal, text_of


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
