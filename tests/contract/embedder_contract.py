"""What every embedder must do. An adapter's test class inherits this one and provides the `embedder` fixture."""

from __future__ import annotations

import math
from array import array

import pytest

from opx.ports import Embedder, Vector

DISK = "The disk of the database server is full, delete old archive logs."
DISK_AGAIN = "Database server disk full: old archive logs can be deleted."
TEA = "How to brew green tea with a bamboo whisk."


def similarity(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def near(vector: Vector) -> object:
    """Equal up to what batches of another shape change in 32-bit arithmetic."""
    return pytest.approx(list(vector), abs=1e-4)


class EmbedderContract:
    """Inherit and add a fixture `embedder`."""

    def test_no_texts_give_no_vectors(self, embedder: Embedder) -> None:
        assert list(embedder.embed_documents([])) == []

    @pytest.mark.parametrize(
        "text", [DISK, "x", "", "   ", "?!", "Gerät キュー 🚒 перезапуск", "word " * 30_000, "!" * 60_000]
    )
    def test_every_text_has_a_unit_vector_of_the_dimension(self, embedder: Embedder, text: str) -> None:
        (vector,) = embedder.embed_documents([text])
        for each in (vector, embedder.embed_query(text)):
            assert len(each) == embedder.dimension
            assert math.hypot(*each) == pytest.approx(1, abs=1e-4)

    def test_vectors_are_in_the_order_of_the_texts(self, embedder: Embedder) -> None:
        texts = [f"{DISK} number {n} " + "word " * (n % 7) for n in range(120)]
        vectors = embedder.embed_documents(texts)
        assert len(vectors) == len(texts)
        for position in (0, 1, 60, 95, 96, 119):
            (alone,) = embedder.embed_documents([texts[position]])
            assert list(vectors[position]) == near(alone)

    def test_equal_texts_have_equal_vectors(self, embedder: Embedder) -> None:
        one, _, other = embedder.embed_documents([DISK, TEA, DISK])
        assert list(one) == near(other)

    def test_vectors_of_a_text_do_not_change(self, embedder: Embedder) -> None:
        assert list(embedder.embed_query(DISK)) == list(embedder.embed_query(DISK))

    def test_similar_texts_are_nearer_than_others(self, embedder: Embedder) -> None:
        one, again, tea = embedder.embed_documents([DISK, DISK_AGAIN, TEA])
        assert similarity(one, again) > similarity(one, tea) + 0.1

    def test_question_is_nearest_to_the_text_that_answers_it(self, embedder: Embedder) -> None:
        disk, tea = embedder.embed_documents([DISK, TEA])
        question = embedder.embed_query("database server disk full")
        assert similarity(question, disk) > similarity(question, tea) + 0.1

    def test_vectors_are_compact_sequences_of_numbers(self, embedder: Embedder) -> None:
        (vector,) = embedder.embed_documents([DISK])
        assert not isinstance(vector, list | tuple)
        assert array("f", vector)[0] == pytest.approx(vector[0])

    def test_model_id_names_the_model_and_stays(self, embedder: Embedder) -> None:
        assert embedder.model_id
        assert embedder.model_id == embedder.model_id

    def test_texts_are_not_changed(self, embedder: Embedder) -> None:
        texts = [DISK, "", TEA]
        embedder.embed_documents(texts)
        assert texts == [DISK, "", TEA]
