"""Sentence models other than the default: their configuration files decide how texts are embedded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers

from opx.adapters.embedded.embedders import MINI_LM, OnnxEmbedder, chosen_embedder, sentence_model
from opx.adapters.embedded.universal_encoder import UniversalSentenceEncoder
from opx.errors import EmbeddingError, InvalidInputError
from opx.settings import MULTILINGUAL, Settings

WORDS = ["[UNK]", "query", "passage", ":", "disk", "full", "tea", "kube", "pod"]
MEAN = {"word_embedding_dimension": len(WORDS), "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
FIRST = MEAN | {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}


def a_model(folder: Path, *, graph: str = "onnx/model.onnx", **files: Any) -> Path:
    """A model whose token vectors have a one for their word, so that vectors say which tokens were pooled."""
    path = folder / graph
    path.parent.mkdir(parents=True, exist_ok=True)
    weights = numpy_helper.from_array(np.eye(len(WORDS), dtype=np.float32), "weights")
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"])
    mask = helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "length"])
    out = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "length", len(WORDS)])
    node = helper.make_node("Gather", ["weights", "input_ids"], ["last_hidden_state"])
    made = helper.make_model(
        helper.make_graph([node], "words", [ids, mask], [out], [weights]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    path.write_bytes(made.SerializeToString())
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    (folder / "1_Pooling").mkdir()
    for name, content in {"1_Pooling/config.json": MEAN, **files}.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


def an_embedder(folder: Path, **files: Any) -> OnnxEmbedder:
    return OnnxEmbedder(a_model(folder, **files), sentence_model(folder))


def words_in(vector: Any) -> set[str]:
    return {word for word, value in zip(WORDS, vector, strict=True) if value > 0}


PROMPTS = {"prompts": {"query": "query : ", "document": "passage : "}}


def test_a_vector_is_the_mean_of_the_tokens(tmp_path: Path) -> None:
    embedder = an_embedder(tmp_path)
    assert embedder.dimension == len(WORDS)
    assert words_in(embedder.embed_query("disk full")) == {"disk", "full"}


def test_a_vector_is_the_first_tokens_if_the_model_is_configured_so(tmp_path: Path) -> None:
    assert words_in(an_embedder(tmp_path, **{"1_Pooling/config.json": FIRST}).embed_query("disk full")) == {"disk"}


def test_prefixes_come_from_the_models_prompts(tmp_path: Path) -> None:
    embedder = an_embedder(tmp_path, **{"config_sentence_transformers.json": PROMPTS})
    assert words_in(embedder.embed_query("disk")) == {"query", ":", "disk"}
    assert words_in(embedder.embed_documents(["disk"])[0][0]) == {"passage", ":", "disk"}


def test_an_e5_model_without_prompts_has_those_of_its_family(tmp_path: Path) -> None:
    (folder := tmp_path / "multilingual-e5-small").mkdir()
    embedder = an_embedder(folder)
    assert words_in(embedder.embed_query("disk")) == {"query", ":", "disk"}
    assert words_in(embedder.embed_documents(["disk"])[0][0]) == {"passage", ":", "disk"}


def test_tokens_beyond_the_models_length_do_not_count(tmp_path: Path) -> None:
    embedder = an_embedder(tmp_path, **{"sentence_bert_config.json": {"max_seq_length": 2}})
    assert words_in(embedder.embed_query("disk full tea")) == {"disk", "full"}


def words_of_windows(embedder: OnnxEmbedder, text: str) -> list[set[str]]:
    (vectors,) = embedder.embed_documents([text])
    return [words_in(vector) for vector in vectors]


def test_a_model_with_little_room_reads_a_document_in_windows_headed_by_its_title(tmp_path: Path) -> None:
    embedder = an_embedder(tmp_path, **{"sentence_bert_config.json": {"max_seq_length": 3}})
    assert words_of_windows(embedder, "disk full tea") == [{"disk", "full", "tea"}]
    found = words_of_windows(embedder, "disk\nfull full tea tea kube kube pod")
    assert found == [{"disk", "full"}, {"disk", "tea"}, {"disk", "kube"}, {"disk", "kube", "pod"}]


def test_each_window_begins_with_the_prefix(tmp_path: Path) -> None:
    files = {"sentence_bert_config.json": {"max_seq_length": 5}, "config_sentence_transformers.json": PROMPTS}
    passage = {"passage", ":"}
    found = words_of_windows(an_embedder(tmp_path, **files), "disk\nfull full kube kube pod pod")
    assert found == [passage | {"disk", "full"}, passage | {"disk", "kube"}, passage | {"disk", "pod"}]


def test_a_model_reads_up_to_256_tokens_in_windows_of_128_and_more_at_once(tmp_path: Path) -> None:
    text = "disk\n" + "full " * 300 + "tea"
    for room, expected in ((128, 3), (256, 3), (300, 2), (512, 1)):
        folder = tmp_path / str(room)
        folder.mkdir()
        found = words_of_windows(an_embedder(folder, **{"sentence_bert_config.json": {"max_seq_length": room}}), text)
        assert (len(found), found[-1] >= {"disk", "full", "tea"}) == (expected, True)


def test_compound_names_are_taken_apart(tmp_path: Path) -> None:
    assert words_in(an_embedder(tmp_path).embed_query("kubePod")) >= {"kube"}


def test_a_graph_may_be_in_the_folder_itself(tmp_path: Path) -> None:
    a_model(tmp_path, graph="model.onnx")
    assert words_in(OnnxEmbedder(tmp_path, sentence_model(tmp_path)).embed_query("tea")) == {"tea"}


def test_model_id_depends_on_the_prefixes(tmp_path: Path) -> None:
    plain = an_embedder(tmp_path).model_id
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(PROMPTS), encoding="utf-8")
    assert OnnxEmbedder(tmp_path, sentence_model(tmp_path)).model_id != plain


def test_model_id_changes_with_weights_beside_the_graph(tmp_path: Path) -> None:
    plain = an_embedder(tmp_path).model_id
    (tmp_path / "onnx" / "model.onnx_data").write_bytes(b"weights")
    assert OnnxEmbedder(tmp_path, sentence_model(tmp_path)).model_id != plain


def test_a_folder_without_configuration_is_read_as_the_default_model(tmp_path: Path) -> None:
    assert sentence_model(tmp_path) is MINI_LM


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "can't be read"),
        ("[]", "not a JSON object"),
        (json.dumps(MEAN | {"pooling_mode_mean_tokens": False}), "only pooling_mode_mean_tokens"),
        (json.dumps({"pooling_mode_mean_tokens": True}), "word_embedding_dimension is missing"),
    ],
)
def test_a_configuration_that_cannot_be_followed_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    a_model(tmp_path)
    (tmp_path / "1_Pooling" / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(EmbeddingError, match=problem):
        sentence_model(tmp_path)


def test_a_graph_that_gives_other_vectors_than_declared_is_an_error(tmp_path: Path) -> None:
    embedder = an_embedder(tmp_path, **{"1_Pooling/config.json": MEAN | {"word_embedding_dimension": 4}})
    with pytest.raises(EmbeddingError, match=r"shape \(9,\), not \(4,\)"):
        embedder.embed_query("disk")


def test_a_graph_that_is_none_is_an_error(tmp_path: Path) -> None:
    embedder = an_embedder(tmp_path)
    (tmp_path / "onnx" / "model.onnx").write_bytes(b"not a graph")
    with pytest.raises(EmbeddingError, match=r"model\.onnx can't be loaded"):
        embedder.embed_query("disk")


class TestChoice:
    def test_a_folder_wins_over_a_name(self, tmp_path: Path) -> None:
        a_model(tmp_path)
        chosen = chosen_embedder(Settings(model_path=str(tmp_path), embedding_model=MULTILINGUAL))
        assert words_in(chosen.embed_query("tea")) == {"tea"}

    def test_the_multilingual_model_is_chosen_by_name(self) -> None:
        assert isinstance(chosen_embedder(Settings(embedding_model=MULTILINGUAL)), UniversalSentenceEncoder)

    def test_a_model_that_is_not_here_is_refused(self) -> None:
        with pytest.raises(InvalidInputError, match=rf"amazon\.titan.*{MULTILINGUAL}.*OPX_MODEL_PATH"):
            chosen_embedder(Settings(embedding_model="amazon.titan-embed-text-v2:0"))
