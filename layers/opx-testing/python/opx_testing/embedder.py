"""Contract of `Embedder`. An adapter's test class inherits this one and provides the `embedder` fixture."""

from __future__ import annotations

import math
from array import array

import pytest

from opx.ports import Embedder, Vector, Vectors

DISK = "The disk of the database server is full, delete old archive logs."
DISK_AGAIN = "Database server disk full: old archive logs can be deleted."
TEA = "How to brew green tea with a bamboo whisk."
FILLER = "The pod is up, so it is not that. " * 50
"""A chunk of 500 tokens with one of the sentences above behind it, and no longer than any model reads."""


def similarity(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def nearest(question: Vector, vectors: Vectors) -> float:
    """Similarity of a question to the nearest vector."""
    return max(similarity(question, vector) for vector in vectors)


def near(vectors: Vectors) -> object:
    """Equal up to what batches of another shape change in 32-bit arithmetic."""
    return [pytest.approx(list(vector), abs=1e-4) for vector in vectors]


class EmbedderContract:
    """Inherit and add a fixture `embedder`."""

    def test_no_texts_give_no_vectors(self, embedder: Embedder) -> None:
        assert list(embedder.embed_documents([])) == []

    @pytest.mark.parametrize(
        "text", [DISK, "x", "", "   ", "?!", "Gerät キュー 🚒 перезапуск", "word " * 8_000, "!" * 16_000]
    )
    def test_every_text_has_unit_vectors_of_the_dimension(self, embedder: Embedder, text: str) -> None:
        (vectors,) = embedder.embed_documents([text])
        assert len(vectors) > 0
        for each in (*vectors, embedder.embed_query(text)):
            assert len(each) == embedder.dimension
            assert math.hypot(*each) == pytest.approx(1, abs=1e-4)

    def test_vectors_are_in_the_order_of_the_texts(self, embedder: Embedder) -> None:
        texts = [f"{DISK} number {n} " + "word " * (n % 7) for n in range(120)]
        vectors = embedder.embed_documents(texts)
        assert len(vectors) == len(texts)
        for position in (0, 1, 60, 95, 96, 119):
            (alone,) = embedder.embed_documents([texts[position]])
            assert [list(vector) for vector in vectors[position]] == near(alone)

    def test_equal_texts_have_equal_vectors(self, embedder: Embedder) -> None:
        one, _, other = embedder.embed_documents([DISK, TEA, DISK])
        assert [list(vector) for vector in one] == near(other)

    def test_vectors_of_a_text_do_not_change(self, embedder: Embedder) -> None:
        assert list(embedder.embed_query(DISK)) == list(embedder.embed_query(DISK))

    def test_similar_texts_are_nearer_than_others(self, embedder: Embedder) -> None:
        (one,), (again,), (tea,) = embedder.embed_documents([DISK, DISK_AGAIN, TEA])
        assert similarity(one, again) > similarity(one, tea) + 0.1

    def test_question_is_nearest_to_the_text_that_answers_it(self, embedder: Embedder) -> None:
        (disk,), (tea,) = embedder.embed_documents([DISK, TEA])
        question = embedder.embed_query("database server disk full")
        assert similarity(question, disk) > similarity(question, tea) + 0.1

    def test_the_end_of_a_chunk_is_found_by_its_meaning(self, embedder: Embedder) -> None:
        disk, tea = embedder.embed_documents([FILLER + DISK, FILLER + TEA])
        for text, other, question in (
            (disk, tea, "database server disk full"),
            (tea, disk, "bamboo tea whisk"),
        ):
            query = embedder.embed_query(question)
            assert nearest(query, text) > nearest(query, other) + 0.001

    def test_the_last_word_of_a_chunk_counts(self, embedder: Embedder) -> None:
        one, other = embedder.embed_documents([FILLER + "disk", FILLER + "tea"])
        assert [list(vector) for vector in one] != near(other)

    def test_vectors_are_compact_sequences_of_numbers(self, embedder: Embedder) -> None:
        ((vector,),) = embedder.embed_documents([DISK])
        assert not isinstance(vector, list | tuple)
        assert array("f", vector)[0] == pytest.approx(vector[0])

    def test_model_id_names_the_model_and_stays(self, embedder: Embedder) -> None:
        assert embedder.model_id
        assert embedder.model_id == embedder.model_id

    def test_texts_are_not_changed(self, embedder: Embedder) -> None:
        texts = [DISK, "", TEA]
        embedder.embed_documents(texts)
        assert texts == [DISK, "", TEA]
