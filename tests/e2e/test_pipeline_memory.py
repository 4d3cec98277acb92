"""Large documents and large batches in bounded memory."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import boto3
import pytest

from opx.ingestion import pipeline
from opx.ports import DocumentChange, Vector
from tests.e2e.systems import SystemUnderTest, a_system, created
from tests.support.fakes import WordsEmbedder

MB = 1024 * 1024


def a_large_text(size: int) -> str:
    numbers = random.Random(3)
    words = "the disk of this host is full so free some space on it now".split()  # noqa: SIM905
    paragraph = " ".join(numbers.choices(words, k=300))
    section = "## Part\n\n" + f"{paragraph}\n\n" * 5
    return "# Large\n\n" + section * (size // len(section) + 1)


class QuickEmbedder(WordsEmbedder):
    """Embeds only the end of each query: ten megabytes of words take their time."""

    def embed_query(self, text: str) -> Vector:
        return super().embed_query(text[-40:])


@pytest.mark.slow
def test_a_document_needs_memory_that_does_not_grow_with_it(tmp_path: Path, aws: boto3.Session) -> None:
    key = "documents/runbooks/large.md"
    peaks = {}
    with a_system("embedded", tmp_path, aws, embedder=QuickEmbedder()) as system:
        system.put_silently(key, a_large_text(1000))
        system.deliver(created(key, 1))  # what is loaded once, such as the tokenizer, doesn't count
        for number, size in enumerate((MB // 2, 3 * MB // 2), start=2):
            system.put_silently(key, a_large_text(size))
            tracemalloc.start()
            try:
                (outcome,) = system.deliver(created(key, number))
                peaks[size] = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            assert (outcome.result, outcome.chunks > size / 5000) == ("ingested", True)
    assert peaks[3 * MB // 2] < peaks[MB // 2] + MB / 4


def test_batch_is_worked_on_in_portions_of_bounded_size(
    either: SystemUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "PORTION_BYTES", 2500)
    keys = [f"documents/runbooks/{number}.md" for number in range(6)]
    for key, size in zip(keys, (1000, 1000, 1000, 9000, 100, 100), strict=True):
        either.put_silently(key, f"# {key}\n\n".ljust(size, "x"))
    together: list[int] = []
    apply = either.services.index.apply

    def noted(changes: Iterable[DocumentChange]) -> list[list[str]]:
        batch = list(changes)
        together.append(len(batch))
        return apply(batch)

    monkeypatch.setattr(either.services.index, "apply", noted)
    outcomes = either.deliver(*(created(key, 1) for key in keys))
    assert [outcome.object_key for outcome in outcomes] == keys
    assert together == [2, 1, 1, 2]
    either.assert_consistent(*keys)
