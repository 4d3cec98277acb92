"""Compares chunking in MB/s with LangChain's TokenTextSplitter, on the same text in one run.

The text is the example corpus repeated, or the `text` fields of a JSONL file. LangChain's splitter only cuts windows;
ours also finds headings, blocks and offsets.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

from langchain_text_splitters import TokenTextSplitter

from opx.domain.ids import normalise
from opx.ingestion.chunking import ChunkOwner, chunk_document
from opx.text.tokenizer import cl100k

ROUNDS = 3
ENOUGH_CHARACTERS = 2_000_000
CORPUS = Path(__file__).resolve().parents[2] / "corpus" / "documents"


def texts(path: Path | None) -> list[str]:
    if path:
        return [normalise(json.loads(line)["text"]) for line in path.read_text(encoding="utf-8").splitlines()]
    found = [normalise(file.read_text(encoding="utf-8")) for file in sorted(CORPUS.rglob("*.md"))]
    return found * (1 + ENOUGH_CHARACTERS // sum(map(len, found)))


class _OfflineSplitter(TokenTextSplitter):
    """LangChain's splitter over our copy of the encoding, since its own would be downloaded."""

    def __init__(self) -> None:
        super().__init__(encoding_name="gpt2", chunk_size=500, chunk_overlap=50)


def langchain() -> Callable[[str], int]:
    import tiktoken

    original, tiktoken.get_encoding = tiktoken.get_encoding, lambda encoding_name: cl100k()
    try:
        splitter = _OfflineSplitter()
    finally:
        tiktoken.get_encoding = original
    return lambda text: len(splitter.split_text(text))


def ours(text: str) -> int:
    owner = ChunkOwner("0" * 32, "title", "runbooks/procedures")
    return sum(1 for _ in chunk_document(text.splitlines(keepends=True), owner))


def speed(split: Callable[[str], int], documents: list[str]) -> dict[str, float]:
    best, chunks = float("inf"), 0
    for _ in range(ROUNDS):
        started = time.perf_counter()
        chunks = sum(split(text) for text in documents)
        best = min(best, time.perf_counter() - started)
    size = sum(len(text.encode()) for text in documents) / 1e6
    return {"mb_per_s": round(size / best, 2), "chunks": chunks, "mb": round(size, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jsonl", type=Path, help="take the texts of this file instead of the example corpus")
    documents = texts(parser.parse_args().jsonl)
    cl100k()
    mine, theirs = speed(ours, documents), speed(langchain(), documents)
    ratio = round(mine["mb_per_s"] / theirs["mb_per_s"], 2)
    print(json.dumps({"opx": mine, "langchain_token_splitter": theirs, "opx_to_langchain": ratio}))


if __name__ == "__main__":
    main()
