"""FastEmbedEmbedder, with FastEmbed and a tiny model if installed, else with a fake."""

from __future__ import annotations

import json
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.adapters.embedders.fastembed import MODEL, FastEmbedEmbedder
from octopus_memory.domain.errors import EmbedderFailed, InvalidSetting, MissingExtra
from octopus_memory.settings import load
from octopus_memory.wiring import make_embedder

DIMENSION = 384
WORDS = ["hund", "dog", "katze", "cat", "haus", "house", "query", ":"]
ANYTHING = ["", " \n", "ok", "🦑", "half a pair: \ud83d", "\x00", "[PAD]", "hund " * 3_000, "昨日"]


class StandIn:
    """Fake of `fastembed.TextEmbedding`."""

    made: list[dict[str, object]]
    asked: list[str]
    rows: list[np.ndarray] | Exception

    def __init__(self, model_name: str, **options: object) -> None:
        if isinstance(options.get("cache_dir"), str) and "broken" in str(options["cache_dir"]):
            raise ValueError("could not load model from any source")
        self.made.append({"model_name": model_name, **options})

    @classmethod
    def get_embedding_size(cls, model_name: str) -> int:
        if "nobody" in model_name:
            raise ValueError("not supported")
        return 2

    def embed(self, documents: list[str], batch_size: int = 256):
        assert batch_size == 1
        self.asked.extend(documents)
        if isinstance(self.rows, Exception):
            raise self.rows
        yield from self.rows[: len(documents)]


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> type[StandIn]:
    fresh = type("Fresh", (StandIn,), {"made": [], "asked": [], "rows": [np.array([3.0, 4.0])]})
    module = types.ModuleType("fastembed")
    module.TextEmbedding = fresh  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fastembed", module)
    return fresh


def test_without_the_extra_its_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)
    with pytest.raises(MissingExtra, match=r"octopus-memory\[fastembed\]"):
        FastEmbedEmbedder()


def test_settings_choose_it(stand_in: type[StandIn], tmp_path: Path) -> None:
    embedder = make_embedder(load(embedder="fastembed", embedding_folder=str(tmp_path)))
    assert embedder.model == f"fastembed/{MODEL}"
    assert embedder.dimension == 2
    assert not stand_in.made, "it is loaded when it is first needed"
    assert embedder.embed(["x"]).tolist() == [[pytest.approx(0.6), pytest.approx(0.8)]]
    assert stand_in.made == [{"model_name": MODEL, "threads": None, "cache_dir": str(tmp_path)}]
    (tmp_path / "tokenizer.json").write_text("{}")
    FastEmbedEmbedder(folder=tmp_path, threads=3).embed(["x"])
    assert stand_in.made[1] == {
        "model_name": MODEL,
        "threads": 3,
        "specific_model_path": str(tmp_path),
    }


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"embedding_model": "nobody/knows"}, "embedding_model"),
        ({"embedding_dimension": 7}, "embedding_dimension"),
    ],
)
def test_settings_that_cannot_be_used(stand_in: type[StandIn], given, field: str) -> None:
    with pytest.raises(InvalidSetting, match=field):
        make_embedder(load(embedder="fastembed", **given))
    with pytest.raises(InvalidSetting, match="threads"):
        FastEmbedEmbedder(threads=0)


def test_only_e5_gets_a_prefix(stand_in: type[StandIn]) -> None:
    FastEmbedEmbedder("intfloat/multilingual-e5-large").embed(["Hund"])
    FastEmbedEmbedder().embed(["Hund"])
    assert stand_in.asked == ["query: Hund", "Hund"]


@pytest.mark.parametrize(
    "rows",
    [
        RuntimeError("onnxruntime is out of memory"),
        [np.zeros(2)],
        [np.array([np.nan, 1.0])],
        [np.ones(3)],
        [],
    ],
)
def test_every_failure_is_the_embedders(stand_in: type[StandIn], rows) -> None:
    stand_in.rows = rows
    with pytest.raises(EmbedderFailed, match="fastembed/"):
        FastEmbedEmbedder().embed(["secret text"])


def test_a_model_that_cannot_be_loaded(stand_in: type[StandIn], tmp_path: Path) -> None:
    with pytest.raises(EmbedderFailed, match="embedding_folder"):
        FastEmbedEmbedder(folder=tmp_path / "broken").embed(["x"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model in FastEmbed's layout: one vector per word, equal for translations."""
    pytest.importorskip("fastembed", reason="needs the extra fastembed")
    onnx = pytest.importorskip("onnx", reason="needs onnx to make a model")
    import tokenizers
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Whitespace

    place = tmp_path_factory.mktemp("model")
    words = {"[PAD]": 0, "[UNK]": 1} | {word: at + 2 for at, word in enumerate(WORDS)}
    tokenizer = tokenizers.Tokenizer(WordLevel(words, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = Lowercase(), Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[UNK] $A", special_tokens=[("[UNK]", 1)]
    )
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
    tokenizer.save(str(place / "tokenizer.json"))
    config = {"model_max_length": 128, "max_length": 128, "pad_token": "[PAD]"}
    (place / "tokenizer_config.json").write_text(json.dumps(config))
    (place / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    (place / "special_tokens_map.json").write_text(json.dumps({"pad_token": "[PAD]"}))
    table = np.random.default_rng(3).normal(size=(len(words), DIMENSION)).astype(np.float32)
    # A word and its translation stand beside each other in the list.
    for first in range(2, 8, 2):
        table[first + 1] = table[first]
    helper, kinds = onnx.helper, onnx.TensorProto
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])],
        "words",
        [
            helper.make_tensor_value_info(name, kinds.INT64, ["batch", "tokens"])
            for name in ("input_ids", "attention_mask")
        ],
        [
            helper.make_tensor_value_info(
                "last_hidden_state", kinds.FLOAT, ["batch", "tokens", DIMENSION]
            )
        ],
        [onnx.numpy_helper.from_array(table, "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(place / "model_optimized.onnx"))
    return place


def test_the_library_itself_gives_unit_vectors(folder: Path) -> None:
    embedder = FastEmbedEmbedder(folder=folder)
    assert embedder.dimension == DIMENSION
    assert embedder.embed([]).shape == (0, DIMENSION)
    rows = embedder.embed(ANYTHING)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    hund, dog, katze = embedder.embed(["Hund", "dog", "Katze"])
    assert float(hund @ dog) > 0.99 > float(hund @ katze)


def test_the_library_itself_in_many_threads(folder: Path) -> None:
    embedder = FastEmbedEmbedder(folder=folder)
    alone = [embedder.embed([text])[0] for text in WORDS]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: embedder.embed([text, "haus"])[0], WORDS * 5))
    assert all(np.array_equal(row, alone[at % len(WORDS)]) for at, row in enumerate(found))


def test_the_library_itself_in_a_memory(folder: Path) -> None:
    with EpisodicMemory.open(
        "sqlite:///:memory:", embedder=FastEmbedEmbedder(folder=folder), background=False
    ) as memory:
        scope = memory.scope(user="ana")
        scope.store([("user", "Katze")])
        scope.store([("user", "Hund")])
        memory.flush()
        assert scope.recall_turns("dog", limit=1)[0].text == "Hund"


def test_the_library_itself_without_the_files(tmp_path: Path) -> None:
    pytest.importorskip("fastembed", reason="needs the extra fastembed")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(EmbedderFailed, match="embedding_folder"):
        FastEmbedEmbedder(folder=tmp_path).embed(["x"])
    with pytest.raises(InvalidSetting, match="nobody/knows"):
        FastEmbedEmbedder("nobody/knows")
