"""The local sentence model keeps the contract of embedders, where it is installed."""

from __future__ import annotations

import importlib.metadata
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from opx.adapters.embedded import embedders as module
from opx.adapters.embedded.embedders import DIMENSION, MiniLmEmbedder, built_model, default_model, packaged_model
from opx.errors import EmbeddingError
from tests.contract.embedder_contract import DISK, TEA, EmbedderContract, near, similarity

TEXTS = [f"{text} {'Filler of another length. ' * (n * 3 % 7)}" for n, text in enumerate([DISK, TEA, "x", ""] * 5)]


def is_model(folder: Path) -> bool:
    return (folder / "onnx" / "model.onnx").is_file() and (folder / "tokenizer.json").is_file()


def installed_model() -> Path | None:
    try:
        return default_model()
    except EmbeddingError:
        return None


needs_model = pytest.mark.skipif(installed_model() is None, reason="the embedding model is not installed")


@pytest.fixture(scope="module")
def _loaded() -> MiniLmEmbedder:
    return MiniLmEmbedder(default_model())


@pytest.fixture
def embedder(_loaded: MiniLmEmbedder) -> MiniLmEmbedder:
    return _loaded


@needs_model
class TestMiniLmEmbedder(EmbedderContract):
    def test_vectors_have_384_dimensions(self, embedder: MiniLmEmbedder) -> None:
        assert embedder.dimension == DIMENSION == len(embedder.embed_query(DISK)) == 384

    def test_vector_does_not_depend_on_the_texts_beside_it(self, embedder: MiniLmEmbedder) -> None:
        shuffled = random.Random(3).sample(TEXTS, len(TEXTS))
        vectors = embedder.embed_documents(shuffled)
        for text, (vector,) in zip(shuffled, vectors, strict=True):
            assert list(vector) == list(embedder.embed_query(text))

    def test_only_the_first_word_pieces_of_a_question_count(self, embedder: MiniLmEmbedder) -> None:
        start = "disk " * 300
        assert list(embedder.embed_query(start + DISK)) == list(embedder.embed_query(start + TEA))

    def test_a_text_has_a_vector_for_each_126_pieces_but_what_its_title_takes(self, embedder: MiniLmEmbedder) -> None:
        title = "# " + "title " * 9
        for pieces, expected in ((10, 1), (126, 1), (127, 2), (242, 2), (243, 3), (500, 5)):
            (vectors,) = embedder.embed_documents([f"{title}\n" + "disk " * (pieces - 10)])
            assert len(vectors) == expected, pieces

    def test_a_later_window_is_the_title_and_what_follows(self, embedder: MiniLmEmbedder) -> None:
        numbers = [f"{n % 10}" for n in range(230)]
        (vectors,) = embedder.embed_documents(["Disk full\n" + " ".join(numbers)])
        read = ["Disk full " + " ".join(numbers[:124]), "Disk full " + " ".join(numbers[-124:])]
        assert [list(vector) for vector in vectors] == [list(embedder.embed_query(text)) for text in read]

    def test_vectors_of_a_dense_text_are_bounded_and_hold_all_of_it(self, embedder: MiniLmEmbedder) -> None:
        table = "| - " * 1000
        one, other = embedder.embed_documents([table + DISK, table + TEA])
        assert len(one) <= module.MAX_VECTORS
        assert [list(one[-1])] != near(other[-1:])

    def test_identifier_is_near_its_words(self, embedder: MiniLmEmbedder) -> None:
        (name,), (words,), (tea,) = embedder.embed_documents(["KubePodCrashLooping", "kube pod crash looping", TEA])
        assert similarity(name, words) > 0.99 > similarity(name, tea) + 0.5

    def test_halves_of_surrogate_pairs_do_no_harm(self, embedder: MiniLmEmbedder) -> None:
        assert list(embedder.embed_query(DISK + "\ud800")) == list(embedder.embed_query(DISK + "?"))

    def test_threads_get_the_vectors_that_one_would(self, embedder: MiniLmEmbedder) -> None:
        with ThreadPoolExecutor(4) as pool:
            together = [list(vector) for vector in pool.map(embedder.embed_query, TEXTS)]
        assert together == [list(embedder.embed_query(text)) for text in TEXTS]

    def test_model_id_changes_with_the_file(self, embedder: MiniLmEmbedder, tmp_path: Path) -> None:
        (tmp_path / "onnx").mkdir()
        (tmp_path / "onnx" / "model.onnx").write_bytes(b"other weights")
        assert MiniLmEmbedder(tmp_path).model_id != embedder.model_id


class TestMissingModel:
    def test_missing_package_error_names_the_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MODEL_PACKAGE", "no-such-package-is-installed")
        with pytest.raises(EmbeddingError, match=r"install no-such-package.*make setup.*OPX_MODEL_PATH"):
            packaged_model()

    def test_missing_files_are_an_error_at_first_use(self, tmp_path: Path) -> None:
        embedder = MiniLmEmbedder(tmp_path)
        with pytest.raises(EmbeddingError, match="no embedding model in"):
            _ = embedder.model_id

    def test_question_to_a_missing_model_is_an_embedding_error(self, tmp_path: Path) -> None:
        with pytest.raises(EmbeddingError, match=r"tokenizer\.json: No such file"):
            MiniLmEmbedder(tmp_path).embed_query(DISK)

    def test_built_model_is_preferred(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "prefix", str(tmp_path))
        built = built_model()
        (built / "onnx").mkdir(parents=True)
        (built / "onnx" / "model.onnx").write_bytes(b"")
        assert default_model() == built

    @needs_model
    def test_packaged_model_is_used_where_none_was_built(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "prefix", str(tmp_path))
        try:
            importlib.metadata.distribution(module.MODEL_PACKAGE)
        except importlib.metadata.PackageNotFoundError:
            pytest.skip("only the built model is here")
        assert default_model() == packaged_model()
        assert is_model(packaged_model())
