"""The splitter for LangChain: exact slices, offsets, and the interface that LangChain's own code uses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_text_splitters import TextSplitter

from opx.chunking import RunbookSplitter
from opx.errors import InvalidInputError
from opx.ingestion.chunking import ChunkOwner
from opx.text.tokenizer import count_tokens
from tests.support.parsing_support import chunk_document

RUNBOOK = """# Disk full

## Symptoms

Alert `DiskFull` fires, writes fail with `No space left on device`, and the database changes to read-only mode. Pods are
evicted with the reason `DiskPressure`, and new ones stay pending until the kubelet has found enough room for them.

## Steps

1. Look:

   ```sh
   df -h
   ```

2. Clean up: find the largest folders with `du`, ask their owners, and delete only what they name. Logs older than a week,
   packages of earlier kernels and images that no container uses can go without asking.
3. Watch the share of the disk that is in use for an hour; if it grows by more than a tenth, open an incident.
"""
BITS = ["# H\n", "## S\r\n", "text of a step", "\n", "\r\n", "\r", "```sh\n", "- item\r\n", "| a |\n", " ", "漢字😀"]


@settings(deadline=None)
@given(st.lists(st.sampled_from(BITS), max_size=60).map("".join), st.integers(8, 40), st.integers(0, 7))
def test_every_chunk_is_a_slice_of_its_text_and_nothing_is_lost(text: str, size: int, overlap: int) -> None:
    reached = 0
    for document in RunbookSplitter(size, overlap).create_documents([text]):
        start = document.metadata["start_index"]
        assert text[start : start + len(document.page_content)] == document.page_content
        assert not text[reached:start].strip()
        reached = start + len(document.page_content)
    assert not text[reached:].strip()


def test_chunks_are_those_of_ingestion() -> None:
    text = RUNBOOK + "Watch the node and its pods. " * 200
    ours = chunk_document(text.splitlines(keepends=True), ChunkOwner("0" * 32, "", "runbooks/procedures"))
    assert RunbookSplitter().split_text(text) == [chunk.content for chunk in ours]


def test_a_chunk_has_its_section_and_the_metadata_of_its_text() -> None:
    found = RunbookSplitter(150, 0).create_documents([RUNBOOK], [{"source": "disk.md"}])
    assert [(one.metadata["section"], one.metadata["source"]) for one in found] == [
        ("Disk full > Symptoms", "disk.md"),
        ("Disk full > Steps", "disk.md"),
    ]


def test_metadata_of_the_text_are_copied_and_its_own_section_stays() -> None:
    given_metadata = {"section": "mine", "labels": ["a"]}
    first, second = RunbookSplitter(150, 0).create_documents([RUNBOOK], [given_metadata])
    first.metadata["labels"].append("b")
    assert (second.metadata["labels"], given_metadata["labels"]) == (["a"], ["a"])
    assert first.metadata["section"] == "mine"


def test_offsets_can_be_left_out() -> None:
    [document] = RunbookSplitter(add_start_index=False).create_documents([RUNBOOK])
    assert "start_index" not in document.metadata


def test_offsets_are_exact_where_the_same_chunk_occurs_twice() -> None:
    text = "## A\nRestart it.\n" * 3
    found = RunbookSplitter(8, 0).create_documents([text])
    assert [one.metadata["start_index"] for one in found] == [0, 17, 34]


def test_documents_are_split_as_by_any_splitter_of_langchain() -> None:
    splitter = RunbookSplitter(150, 0)
    assert isinstance(splitter, TextSplitter)
    documents = [Document(page_content=RUNBOOK, metadata={"source": "disk.md"})]
    expected = splitter.create_documents([RUNBOOK], [{"source": "disk.md"}])
    assert splitter.split_documents(documents) == expected
    assert list(splitter.transform_documents(documents)) == expected


def test_no_chunk_is_longer_than_the_window() -> None:
    text = RUNBOOK * 3 + "word " * 3000
    assert max(map(count_tokens, RunbookSplitter(64, 8).split_text(text))) <= 64


@pytest.mark.parametrize(("size", "overlap"), [(7, 0), (0, 0), (500, 500), (500, -1)])
def test_windows_that_cannot_be_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(InvalidInputError):
        RunbookSplitter(size, overlap)


def test_metadata_for_some_texts_alone_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        RunbookSplitter().create_documents(["# A\n", "# B\n"], [{}])


@pytest.mark.parametrize("text", ["", "\r\n\r\n", " \n"])
def test_a_text_of_white_space_has_no_chunks(text: str) -> None:
    assert RunbookSplitter().split_text(text) == []
