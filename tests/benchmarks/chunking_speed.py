"""Compares chunking with LangChain's splitters for Markdown, on the same text in one run: speed, exact slices, torn code.

The text is the example corpus repeated, or the `text` fields of a JSONL file. LangChain's are its splitter at headings, then
its recursive one with the rules for Markdown, in the same windows. A chunk is a slice if it is found in its source; code is
torn if a fenced block that fits into a window is whole in no chunk.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import tiktoken.registry
from langchain_text_splitters import Language, MarkdownHeaderTextSplitter, RecursiveCharacterTextSplitter

from opx.chunking import RunbookSplitter
from opx.domain.ids import normalise
from opx.text.tokenizer import cl100k, count_tokens

ROUNDS = 3
ENOUGH_CHARACTERS = 2_000_000
CORPUS = Path(__file__).resolve().parents[2] / "corpus" / "documents"
WINDOW, OVERLAP = 500, 50
HEADINGS = [("#" * level, f"h{level}") for level in range(1, 7)]
_FENCED = re.compile(
    r"^(?P<indent> *)(?P<fence>```+|~~~+)[^\n]*\n.*?^(?P=indent)(?P=fence)[ ]*$", re.MULTILINE | re.DOTALL
)

Split = Callable[[str], list[str]]


def texts(path: Path | None) -> list[str]:
    if path:
        return [normalise(json.loads(line)["text"]) for line in path.read_text(encoding="utf-8").splitlines()]
    found = [normalise(file.read_text(encoding="utf-8")) for file in sorted(CORPUS.rglob("*.md"))]
    return found * (1 + ENOUGH_CHARACTERS // sum(map(len, found)))


def langchain() -> Split:
    tiktoken.registry.ENCODINGS["benchmark"] = cl100k()  # its own would be downloaded
    at_headings = MarkdownHeaderTextSplitter(HEADINGS, strip_headers=False)
    windows = RecursiveCharacterTextSplitter.from_tiktoken_encoder(
        encoding_name="benchmark",
        chunk_size=WINDOW,
        chunk_overlap=OVERLAP,
        separators=RecursiveCharacterTextSplitter.get_separators_for_language(Language.MARKDOWN),
        is_separator_regex=True,
    )
    return lambda text: [part.page_content for part in windows.split_documents(at_headings.split_text(text))]


def torn(text: str, chunks: list[str]) -> int:
    blocks = [found[0] for found in _FENCED.finditer(text)]
    whole = [block for block in blocks if any(block in chunk for chunk in chunks)]
    return sum(1 for block in blocks if block not in whole and count_tokens(block) < WINDOW)


def figures(split: Split, documents: list[str]) -> dict[str, float]:
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        cut = [split(text) for text in documents]
        best = min(best, time.perf_counter() - started)
    each = dict(zip(documents, cut, strict=True))  # repeated ones once
    return {
        "mb_per_s": round(sum(len(text.encode()) for text in documents) / 1e6 / best, 2),
        "chunks": sum(map(len, each.values())),
        "slices": sum(chunk in text for text, chunks in each.items() for chunk in chunks),
        "torn": sum(torn(text, chunks) for text, chunks in each.items()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jsonl", type=Path, help="take the texts of this file instead of the example corpus")
    documents = texts(parser.parse_args().jsonl)
    cl100k()
    print(json.dumps({"opx": figures(RunbookSplitter().split_text, documents)}))
    print(json.dumps({"langchain": figures(langchain(), documents)}))


if __name__ == "__main__":
    main()
