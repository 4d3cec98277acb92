"""Vectors that are checked in for tests come back as they were, and only for their model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.quality.expected import KnownVectors, write_vectors
from tests.support.fakes import WindowsEmbedder, WordsEmbedder

TEXTS = ["disk full", "a b c d e f g", "", "one two three four"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    known = KnownVectors(WindowsEmbedder(words=3), tmp_path / "vectors.npz")
    known.embed_documents(TEXTS)
    write_vectors(tmp_path / "vectors.npz", known)
    return tmp_path / "vectors.npz"


def test_each_text_has_as_many_vectors_as_before_to_half_precision(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = WindowsEmbedder(words=3)
    expected = embedder.embed_documents(TEXTS)
    monkeypatch.setattr(
        embedder, "embed_documents", lambda texts: [] if not texts else pytest.fail(f"embedded {texts}")
    )
    found = KnownVectors(embedder, file).embed_documents(TEXTS)
    assert [len(vectors) for vectors in found] == [len(vectors) for vectors in expected] == [1, 3, 1, 2]
    for some, others in zip(found, expected, strict=True):
        assert [list(vector) for vector in some] == [pytest.approx(list(vector), abs=1e-3) for vector in others]


def test_vectors_of_another_model_are_not_taken(file: Path) -> None:
    assert [len(each) for each in KnownVectors(WordsEmbedder(), file).embed_documents(TEXTS)] == [1, 1, 1, 1]
