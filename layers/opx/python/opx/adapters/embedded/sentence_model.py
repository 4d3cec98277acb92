"""How a folder with a sentence-transformers model wants texts read: from its configuration files.

`1_Pooling/config.json` says which vector stands for a text and of how many numbers, `sentence_bert_config.json` how many
tokens count, `config_sentence_transformers.json` what is put before questions and passages (Sentence Transformers
documentation, "Creating Custom Models" and "Prompts").
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opx.errors import EmbeddingError

POOLING_FILE = "1_Pooling/config.json"
_LENGTH_FILE = "sentence_bert_config.json"
_PROMPTS_FILE = "config_sentence_transformers.json"

_MEAN, _FIRST = "pooling_mode_mean_tokens", "pooling_mode_cls_token"
_QUERY_PROMPTS = ("query", "search_query", "retrieval.query")
_DOCUMENT_PROMPTS = ("document", "passage", "search_document", "retrieval.passage")
_E5_PROMPTS = ("query: ", "passage: ")
_DEFAULT_TOKENS = 512


@dataclass(frozen=True, slots=True)
class SentenceModel:
    """`max_tokens` of a text are read, after the prefix of its kind. Its vector is the mean of its tokens', or the first
    token's. `mark` names what else decides the vectors; it is part of the model's identity."""

    name: str
    dimension: int
    max_tokens: int
    mark: str
    first_token: bool = False
    query_prefix: str = ""
    document_prefix: str = ""


MINI_LM = SentenceModel("all-MiniLM-L6-v2", 384, 256, "256-camel-apart-alone")
"""The mean over the first 256 word pieces, as it was trained. The tokenizer lowercases before it splits, so
`KubePodCrashLooping` would be one unknown word; apart, nDCG@10 of the vector leg rose from .72 to .81 on the labelled
set. Each text goes alone: the quantised model scales its activations over a whole batch."""


def sentence_model(folder: Path) -> SentenceModel:
    """What the files in `folder` say; without `1_Pooling/config.json` it is taken for all-MiniLM-L6-v2.

    Raises `EmbeddingError` for a file that can't be read and for a way of pooling that isn't known here.
    """
    pooling = _read(folder, POOLING_FILE)
    if pooling is None:
        return MINI_LM
    if not pooling.get(_MEAN) and not pooling.get(_FIRST):
        raise EmbeddingError(f"{folder / POOLING_FILE}: only {_MEAN} and {_FIRST} are known")
    name = folder.resolve().name
    tokens = (_read(folder, _LENGTH_FILE) or {}).get("max_seq_length") or _DEFAULT_TOKENS
    first = not pooling.get(_MEAN)
    query, document = _prefixes(folder, name)
    mark = f"{tokens}-{'first' if first else 'mean'}-{query!r}-{document!r}-camel-apart-alone"
    return SentenceModel(name, _dimension(folder, pooling), int(tokens), mark, first, query, document)


def _prefixes(folder: Path, name: str) -> tuple[str, str]:
    """Those of the model's prompts; E5 models were published before there were prompts (their model cards name them)."""
    prompts = (_read(folder, _PROMPTS_FILE) or {}).get("prompts") or {}
    if not prompts and "e5" in name.lower().replace("_", "-").split("-"):
        return _E5_PROMPTS
    query = next((str(prompts[key]) for key in _QUERY_PROMPTS if prompts.get(key)), "")
    document = next((str(prompts[key]) for key in _DOCUMENT_PROMPTS if prompts.get(key)), "")
    return query, document


def _dimension(folder: Path, pooling: Mapping[str, Any]) -> int:
    dimension = pooling.get("word_embedding_dimension")
    if not isinstance(dimension, int) or dimension < 1:
        raise EmbeddingError(f"{folder / POOLING_FILE}: word_embedding_dimension is missing")
    return dimension


def _read(folder: Path, name: str) -> dict[str, Any] | None:
    """The JSON object in a file; None if there is no such file."""
    try:
        found = json.loads((folder / name).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as exc:
        raise EmbeddingError(f"{folder / name} can't be read: {exc}") from exc
    if not isinstance(found, dict):
        raise EmbeddingError(f"{folder / name} is not a JSON object")
    return found
