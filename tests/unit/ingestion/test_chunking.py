"""Chunks: what each holds, that nothing is lost or torn, and that any size streams in bounded memory."""

from __future__ import annotations

import gc
import json
import random
import re
import tracemalloc
from collections.abc import Iterable, Iterator
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from opx.domain.documents import DocumentChunk
from opx.domain.ids import chunk_id
from opx.errors import InvalidInputError
from opx.ingestion.chunking import MAX_HEADING, ChunkOwner
from opx.text.tokenizer import cl100k, encode
from tests.support.parsing_support import chunk_document

calm = settings(deadline=None)  # a busy machine is no failure

OWNER = ChunkOwner("0" * 32, "Runbook", "runbooks/procedures", ("linux",))
MEGABYTE = 1024 * 1024
WORDS = ("restart", "the", "kubelet", "and", "watch", "node", "conditions", "until", "ORA-01555", "clears", "(twice)")


def words(count: int, seed: int = 0) -> str:
    numbers = random.Random(seed)
    return " ".join(numbers.choice(WORDS) for _ in range(count))


def chunks_of(text: str, *, tokens: int = 500, overlap: int = 50) -> list[DocumentChunk]:
    return list(chunk_document(re.findall(r"[^\n]*\n|[^\n]+", text), OWNER, tokens=tokens, overlap=overlap))


def exact_windows(text: str) -> list[str]:
    tokens = encode(text)
    return [cl100k().decode(tokens[at : at + 500]) for at in range(0, max(1, len(tokens) - 50), 450)]


def check(text: str, chunks: Iterable[DocumentChunk], limit: int) -> None:
    """Everything that must hold for the chunks of any text."""
    reached = before = 0
    for index, chunk in enumerate(chunks):
        assert chunk.chunk_index == index
        assert chunk.content == text[chunk.start : chunk.end]
        assert chunk.content.strip()
        assert chunk.token_count == len(encode(chunk.content)) <= limit
        assert not text[reached : chunk.start].strip()
        assert chunk.end > reached
        assert index == 0 or chunk.start > before
        before, reached = chunk.start, chunk.end
    assert not text[reached:].strip()


# -- any text --------------------------------------------------------------------------------------------------------

BITS = st.sampled_from(
    [
        *("# H\n", "## S #\n", "##\n", "Title\n===\n", "\n", "\n\n", "   \n", "---\n", "***\n", "> q\n"),
        *("- item\n", "  nested\n", "1. step\n", "   ```sh\n   cmd --x\n   ```\n", "```\n", "~~~\n", "\tcode\n"),
        *("| a | b |\n", "|---|---|\n", "a | b\n", "--- | ---\n", "text of a paragraph\n", "no line end", "'", "''sll"),
        *(
            "😀👩‍👩‍👧‍👦 e\u0301",
            "汉字漢字" * 9,
            "½¾⅓¼⅕" * 5,
            "don't (foo)!!!'s\n",
            "x" * 40,
            " " * 20,
            "\u2028b\n",
            "\ud800",
        ),
    ]
)
TEXTS = st.lists(BITS, max_size=60).map("".join)
LIMITS = st.sampled_from([8, 9, 12, 20, 50])


@calm
@given(TEXTS, LIMITS, st.integers(0, 49))
def test_no_character_is_lost_and_no_chunk_is_too_long(text: str, limit: int, overlap: int) -> None:
    check(text, chunks_of(text, tokens=limit, overlap=overlap % limit), limit)


@calm
@given(TEXTS, st.integers(1, 9))
def test_nothing_is_lost_of_lines_that_come_in_pieces(text: str, size: int) -> None:
    pieces = [line[at : at + size] for line in text.splitlines(keepends=True) for at in range(0, len(line), size)]
    check(text, chunk_document(pieces, OWNER, tokens=20, overlap=4), 20)


@calm
@given(st.lists(st.sampled_from([*WORDS, "\n", "\n\n", "# A\n", "- "]), max_size=200).map(" ".join), st.integers(0, 19))
def test_neighbours_share_no_more_than_the_overlap(text: str, overlap: int) -> None:
    for first, second in pairwise(chunks_of(text, tokens=20, overlap=overlap)):
        assert len(encode(text[second.start : first.end])) <= overlap


@calm
@given(TEXTS)
def test_chunks_depend_on_the_text_alone(text: str) -> None:
    first = [chunk.to_json_line() for chunk in chunks_of(text, tokens=20, overlap=4)]
    assert [chunk.to_json_line() for chunk in chunks_of(text, tokens=20, overlap=4)] == first


@calm
@given(TEXTS)
def test_chunks_survive_being_written_and_read(text: str) -> None:
    for chunk in chunks_of(text):
        assert DocumentChunk.from_json(json.loads(chunk.to_json_line())) == chunk


@calm
@given(st.text(st.sampled_from("👩‍👧😀e\u0301漢字ก็가½ \n"), max_size=300))
@example("👩‍👩‍👧‍👦" * 60)
@example("漢字仮名" * 60)
@example("e\u0301\u0327" * 60)
def test_no_character_is_torn(text: str) -> None:
    for chunk in chunks_of(text, tokens=10, overlap=3):
        assert "\ufffd" not in chunk.content
        assert chunk.content.encode().decode() == chunk.content


@pytest.mark.parametrize("text", ["", "\n", "\n \n\t\n", " " * 5000, "\n" * 200_000, "\u00a0\n\u3000"])
def test_a_text_of_white_space_has_no_chunks(text: str) -> None:
    assert chunks_of(text) == []


def test_white_space_that_would_be_a_chunk_of_its_own_is_left_out() -> None:
    text = "a\n" + " \n" * 100_000 + "b\n"
    found = chunks_of(text)
    check(text, found, 500)
    assert [chunk.content.strip() for chunk in found] == ["a", "b"]


@pytest.mark.parametrize(("tokens", "overlap"), [(7, 0), (0, 0), (500, 500), (500, 501), (500, -1)])
def test_windows_that_cannot_be_are_refused(tokens: int, overlap: int) -> None:
    with pytest.raises(InvalidInputError):
        next(chunk_document(["text\n"], OWNER, tokens=tokens, overlap=overlap))


# -- windows ---------------------------------------------------------------------------------------------------------


def test_text_without_spaces_is_cut_into_exact_windows() -> None:
    text = "restart-the-kubelet/" * 600
    assert [chunk.content for chunk in chunks_of(text)] == exact_windows(text)


def test_a_line_that_comes_in_pieces_is_cut_into_the_same_windows() -> None:
    text = words(30_000)
    pieces = [text[at : at + 65_536] for at in range(0, len(text), 65_536)]
    assert len(pieces) > 2
    in_pieces = [chunk.content for chunk in chunk_document(pieces, OWNER)]
    assert in_pieces == [chunk.content for chunk in chunks_of(text)]
    assert sum(len(encode(content)) for content in in_pieces[:-1]) > 495 * (len(in_pieces) - 1)


@pytest.mark.parametrize("shift", range(3))
def test_windows_of_characters_of_several_tokens_differ_by_less_than_a_character(shift: int) -> None:
    text = " b" * shift + "🫠" * 1000
    chunks = chunks_of(text)
    check(text, chunks, 500)
    assert all(chunk.token_count > 496 for chunk in chunks[:-1])
    for first, second in pairwise(chunks):
        assert 46 < len(encode(text[second.start : first.end])) <= 50


def test_a_section_of_exactly_the_limit_is_one_chunk() -> None:
    text = cl100k().decode(encode(words(1000))[:500])
    assert [chunk.token_count for chunk in chunks_of(text)] == [500]


def test_a_section_of_one_token_more_is_two_chunks() -> None:
    text = cl100k().decode(encode("node " * 1000)[:501])
    assert [chunk.token_count for chunk in chunks_of(text)] == [500, 51]


@pytest.mark.parametrize("before", range(2, 480, 23))
@pytest.mark.parametrize(
    ("kind", "size"),
    [
        *(("code", 20), ("table", 20), ("table without bars", 20), ("step with code", 20), ("list", 20)),
        *(("code", 80), ("table", 69), ("table without bars", 70), ("step with code", 69), ("list", 70)),
    ],
)
def test_a_block_that_fits_is_whole_in_a_chunk(kind: str, size: int, before: int) -> None:
    block = BLOCKS[kind](size)
    text = f"# Nodes\n\n{words(before)}.\n\n{block}\n{words(700, 1)}\n"
    assert 120 < len(encode(block)) < 160 or 480 < len(encode(block)) <= 500
    chunks = chunks_of(text)
    check(text, chunks, 500)
    assert any(block.strip() in chunk.content for chunk in chunks)


def _of_nodes(line: str, count: int) -> str:
    return "".join(f"{line} worker{number}\n" for number in range(10, 10 + count))


BLOCKS = {
    "code": lambda size: f"```sh\n{_of_nodes('kubectl describe node', size)}\n# done\n```\n",
    "table": lambda size: f"| state | node |\n|---|---|\n{_of_nodes('| not | ready', size)}",
    "table without bars": lambda size: f"state | node\n--- | ---\n{_of_nodes('not | in ready', size)}",
    "step with code": lambda size: f"3. Drain:\n\n   ```sh\n{_of_nodes('   kubectl drain', size)}   ```\n\n   Wait.\n",
    "list": lambda size: f"- Check\n{_of_nodes('  - the node', size)}",
}


def test_an_item_of_one_line_that_fits_is_whole_in_a_chunk() -> None:
    item = f"- {words(230)}"
    assert 400 < len(encode(item)) < 500
    chunks = chunks_of(f"{words(100, 1)}\n\n{item}\n- {words(300, 2)}\n")
    assert any(item in chunk.content for chunk in chunks)


def test_every_step_of_a_procedure_is_whole_in_a_chunk() -> None:
    steps = [f"{n}. {words(40 + 7 * n, n)}:\n\n   ```sh\n   systemctl restart unit-{n}\n   ```\n" for n in range(1, 30)]
    chunks = chunks_of("# Steps\n\n" + "".join(steps))
    for step in steps:
        assert any(step.strip() in chunk.content for chunk in chunks)


def test_code_in_a_step_that_is_too_long_itself_is_whole() -> None:
    code = "   ```sh\n" + "".join(f"   systemctl restart unit-{n}\n" for n in range(40)) + "   ```\n"
    text = f"1. First\n   {words(300)}\n\n{code}\n   {words(300, 1)}\n2. Second\n"
    assert any(code.strip() in chunk.content for chunk in chunks_of(text))


def test_code_that_does_not_fit_is_cut_into_full_windows() -> None:
    text = "```\n" + "".join(f"line {n} of the log\n" for n in range(1000)) + "```\n"
    chunks = chunks_of(text)
    check(text, chunks, 500)
    assert all(chunk.token_count > 490 for chunk in chunks[:-1])


# -- sections --------------------------------------------------------------------------------------------------------


def test_a_chunk_never_spans_long_sections() -> None:
    text = f"# A\n{words(100)}\n# B\n{words(100, 1)}\n"
    assert [chunk.section for chunk in chunks_of(text)] == [("A",), ("B",)]


def test_every_chunk_knows_its_document_and_its_place() -> None:
    text = f"# Runbook\n\n## Diagnosis\n\n### Disk\n\n{words(900)}\n"
    chunks = chunks_of(text)
    assert len(chunks) > 1
    for index, chunk in enumerate(chunks):
        assert (chunk.document_id, chunk.title, chunk.category, chunk.tags) == (
            OWNER.document_id,
            OWNER.title,
            OWNER.category,
            OWNER.tags,
        )
        assert chunk.chunk_id == chunk_id(OWNER.document_id, index, chunk.content)
    assert chunks[-1].section == ("Diagnosis", "Disk")


def test_a_heading_ends_the_deeper_ones_before_it() -> None:
    text = "".join(f"{heading}\n{words(80, n)}\n" for n, heading in enumerate(["# A", "### C", "## B", "# D"]))
    assert [chunk.section for chunk in chunks_of(text)] == [("A",), ("A", "C"), ("A", "B"), ("D",)]


def test_a_first_heading_that_repeats_the_title_is_not_in_the_path() -> None:
    assert [chunk.section for chunk in chunks_of(f"# runbook\n\n## Steps\n{words(80)}\n")] == [("Steps",)]


def test_an_empty_heading_is_not_in_the_path() -> None:
    assert [chunk.section for chunk in chunks_of(f"#\n{words(80)}\n")] == [()]


def test_a_very_long_heading_is_cut_in_the_path_and_whole_in_the_text() -> None:
    heading = "x" * 30_000
    chunks = chunks_of(f"# {heading}\ntext\n")
    assert {chunk.section for chunk in chunks} == {("x" * MAX_HEADING,)}


def test_small_sections_under_one_heading_are_one_chunk() -> None:
    text = "# Contacts\n\n## Mail\n\nops@example.com\n\n## Phone\n\n112\n"
    [chunk] = chunks_of(text)
    assert (chunk.content, chunk.section) == (text, ("Contacts", "Mail / Phone"))


def test_a_small_section_does_not_join_one_under_another_heading() -> None:
    text = f"# A\n{words(500)}\n## A one\nshort\n# B\nshort\n# C\n{words(500, 1)}\n"
    sections = [chunk.section for chunk in chunks_of(text)]
    assert ("A", "A one") in sections
    assert ("B",) in sections


def test_sections_that_are_not_small_stay_apart() -> None:
    text = f"## A\n{words(64)}\n## B\n{words(64, 1)}\n"
    assert len(chunks_of(text)) == 2


def test_a_heading_in_code_begins_no_section() -> None:
    assert {chunk.section for chunk in chunks_of(f"# A\n{words(90)}\n```sh\n# comment\n```\n{words(90, 1)}\n")} == {
        ("A",)
    }


# -- golden values ---------------------------------------------------------------------------------------------------


def test_a_document_has_its_known_chunk_ids() -> None:
    text = (
        f"# Runbook\n\nWhen a node is *NotReady*: größer 漢字 😀\n\n## Steps\n\n1. {' '.join(WORDS * 60)}\n2. Done.\n"
    )
    assert [(chunk.chunk_id, chunk.token_count) for chunk in chunks_of(text)] == [
        ("87023da5f1215942537076601767e013", 20),
        ("eb3332785f9ae2184281ce030f8211ad", 500),
        ("356f53f19ca9f4a2b53135f21bb9cd7b", 500),
        ("67d1fa7bdbfccad77d53491873f64ccc", 249),
    ]


# -- large documents -------------------------------------------------------------------------------------------------

SENTENCE = "restart the kubelet and watch node conditions until they are ready again "


def _repeated(piece: str) -> Iterator[str]:
    for _ in range(10 * MEGABYTE // len(piece.encode())):
        yield piece


def _fence() -> Iterator[str]:
    yield "```\n"
    yield from _repeated(SENTENCE + "\n")


def _headings() -> Iterator[str]:
    for number in range(200_000):
        yield f"# Heading number {number}\n"


LARGE = {
    "one line": lambda: _repeated((SENTENCE * 1000)[:65_536]),
    "one line without spaces": lambda: _repeated("漢字仮名" * 4096),
    "paragraph": lambda: _repeated(SENTENCE + "\n"),
    "code": _fence,
    "table": lambda: _repeated(f"| {SENTENCE} | x |\n"),
    "headings": _headings,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LARGE)
def test_a_large_document_is_cut_in_memory_that_does_not_grow_with_it(kind: str) -> None:
    encode("the ranks are in memory before it is measured")
    small, large = (peak_of_cutting(kind, size) for size in (MEGABYTE // 8, MEGABYTE // 2))
    assert large < small + MEGABYTE / 4
    assert large < 16 * MEGABYTE


def peak_of_cutting(kind: str, size: int) -> int:
    """The most bytes in use while the first `size` characters are cut."""
    gc.collect()
    tracemalloc.start()
    try:
        count = sum(1 for _ in chunk_document(_beginning(LARGE[kind](), size), OWNER))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count > size / 10_000
    return peak


def _beginning(pieces: Iterable[str], size: int) -> Iterator[str]:
    for piece in pieces:
        if size <= 0:
            return
        yield piece
        size -= len(piece)
