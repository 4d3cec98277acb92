"""Blocks that are longer than a window: where they are cut, in prose, in code, and where nothing fits."""

from __future__ import annotations

import re

import pytest

from opx.domain.documents import DocumentChunk
from opx.formats.markdown_lines import scan
from opx.ingestion.chunking import ChunkOwner
from opx.ingestion.long_blocks import first_part
from opx.text.tokenizer import count_tokens, encode, tokens_of_characters
from tests.support.parsing_support import chunk_document

OWNER = ChunkOwner("0" * 32, "Runbook", "runbooks/procedures")

SENTENCE = "Drain the node, watch its pods and restart the kubelet until it reports ready. "


def chunks_of(text: str, *, overlap: int = 50) -> list[DocumentChunk]:
    found = list(chunk_document(re.findall(r"[^\n]*\n|[^\n]+", text), OWNER, overlap=overlap))
    assert all(chunk.content == text[chunk.start : chunk.end] for chunk in found)
    assert all(chunk.token_count == count_tokens(chunk.content) <= 500 for chunk in found)
    return found


def code(language: str, *definitions: str) -> str:
    return f"```{language}\n" + "".join(definitions) + "```\n"


def test_a_paragraph_is_cut_between_sentences() -> None:
    found = chunks_of(SENTENCE * 100)
    assert len(found) > 2
    assert all(chunk.content.endswith("ready.") for chunk in found[:-1])


def test_a_sentence_is_cut_between_words() -> None:
    text = "restart unattended-upgrades " * 400
    found = chunks_of(text)
    assert len(found) > 2
    assert all(chunk.content.split()[-1] in ("restart", "unattended-upgrades") for chunk in found)


def test_lines_are_whole() -> None:
    found = chunks_of("```\n" + "".join(f"{n} pod evicted, out of memory\n" for n in range(400)) + "```\n")
    assert len(found) > 2
    assert all(chunk.content.endswith("\n") for chunk in found)


def test_rows_of_a_long_table_are_whole() -> None:
    found = chunks_of("| node | state |\n|---|---|\n" + "".join(f"| worker{n} | ready |\n" for n in range(400)))
    assert len(found) > 2
    assert all(chunk.content.endswith("|\n") for chunk in found)


PYTHON = [f"def check_{n}(node):\n    state = node.read()\n\n    return state == {n}\n\n\n" for n in range(60)]
GO = [f"func check{n}(node Node) bool {{\n\tstate := node.Read()\n\n\treturn state == {n}\n}}\n\n" for n in range(60)]


@pytest.mark.parametrize(
    ("language", "definitions", "begins"),
    [
        *(("python", PYTHON, "def "), ("py", PYTHON, "def "), ("{.python}", PYTHON, "def ")),
        *(("go", GO, "func "), ("Golang", GO, "func ")),
    ],
)
def test_code_is_cut_before_definitions_of_its_language(language: str, definitions: list[str], begins: str) -> None:
    text = code(language, *definitions)
    found = chunks_of(text, overlap=0)
    assert len(found) > 2
    assert all(chunk.content.startswith(begins) for chunk in found[1:])


def test_code_of_an_unknown_language_is_cut_at_blank_lines() -> None:
    steps = [f"systemctl restart unit-{n}\njournalctl -u unit-{n}\n\n" for n in range(120)]
    found = chunks_of(code("sh", *steps), overlap=0)
    assert len(found) > 2
    assert all(chunk.content.startswith("systemctl") for chunk in found[1:])


def test_the_language_ends_with_its_block() -> None:
    prose = "".join(f"def inition {n} of the term is long\nclass ic words\n" for n in range(200))
    found = chunks_of(code("python", *PYTHON[:2]) + "\n" + prose, overlap=0)
    assert any(chunk.content.startswith("def inition") for chunk in found[1:])


def test_only_lines_of_a_code_block_have_its_language() -> None:
    lines = list(scan(["Text\n", "``` Python title=x\n", "a = ", "1\n", "```\n", "more ", "text\n"]))
    assert [line.code for line in lines] == ["", "", "Python", "Python", "Python", "", ""]


def test_windows_are_at_least_half_full() -> None:
    text = code("python", "x = 1\n" * 40, PYTHON[0], "x = 1\n" * 5000)
    assert all(chunk.token_count > 249 for chunk in chunks_of(text)[:-1])


def test_text_that_can_only_be_cut_within_a_word_has_no_first_part() -> None:
    assert first_part("漢字" * 400, 100) == ""


@pytest.mark.parametrize("text", ["<|endoftext|> " * 100, "<|fim_prefix|>\n" * 100, "\ud800 node " * 100])
def test_marks_of_a_model_and_broken_characters_are_ordinary_text(text: str) -> None:
    part = first_part(text, 100)
    assert part
    assert text.startswith(part)
    assert count_tokens(part) <= 100


DEFINITIONS = {
    "bash": "drain_{n}() {{\n  kubectl drain node-{n}\n}}\n",
    "c#": "public class Check{n}\n{{\n    int State;\n}}\n",
    "cpp": "void check_{n}() {{\n  read();\n}}\n",
    "hcl": 'resource "aws_instance" "node_{n}" {{\n  ami = "a"\n}}\n',
    "java": "public final int check{n}() {{\n  return {n};\n}}\n",
    "js": "export async function check{n}() {{\n  return {n};\n}}\n",
    "kotlin": "private suspend_{n}\n",
    "php": "function check_{n}() {{\n  return {n};\n}}\n",
    "powershell": "Function Check-{n} {{\n  Get-Node\n}}\n",
    "proto": "message Check{n} {{\n  int32 state = 1;\n}}\n",
    "python": "@retried\n# reads it\ndef check_{n}(node):\n    return {n}\n",
    "rust": "pub(crate) fn check_{n}() -> i32 {{\n    {n}\n}}\n",
    "sql": "CREATE TABLE check_{n} (\n  state int\n);\n",
}


@pytest.mark.parametrize(("language", "definition"), DEFINITIONS.items())
def test_a_part_of_code_ends_before_a_definition_with_its_decorators(language: str, definition: str) -> None:
    definitions = [definition.format(n=n) for n in range(60)]
    part = first_part("".join(definitions), 90, language)
    assert part
    assert part in {"".join(definitions[:n]) for n in range(60)}


def test_a_class_that_is_too_long_is_cut_before_a_method() -> None:
    methods = "".join(f"    def check_{n}(self):\n        log()\n        return {n}\n" for n in range(60))
    part = first_part(f"class Checks:\n{methods}", 100, "python")
    assert f"class Checks:\n{methods}"[len(part) :].startswith("    def check_")


def test_tokens_are_counted_up_to_the_end_of_one_alone() -> None:
    tokens = encode("restart the kubelet")
    assert tokens_of_characters(tokens, len("restart")) == 1
    assert tokens_of_characters(tokens, len("restart t")) is None
    assert tokens_of_characters(tokens, len("restart the kubelet")) == len(tokens)
    assert tokens_of_characters(encode("🫠🫠"), 1) == len(encode("🫠"))
