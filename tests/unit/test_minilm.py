"""The built-in embedder, compared with reference vectors of the original weights."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
from numpy.typing import NDArray

from octopus_memory.adapters.embedders import minilm
from octopus_memory.adapters.embedders.minilm import MiniLMEmbedder
from octopus_memory.domain.errors import EmbedderFailed, InvalidSetting
from tests.support.paths import DATA

GOLDEN = DATA / "minilm_golden.json"
MODEL = Path(minilm.__file__).with_name("all-minilm-l6-v2-int8")

ANYTHING = [
    "",
    " \n\t ",
    "ok",
    "🦑🦑 👩‍👩‍👧‍👦",
    "half a pair: \ud83d and \udc00",
    "\x00\x01\u200b",
    "[CLS] [SEP] [PAD] [MASK]",
    "a" * 5_000,
    "昨日、東京で友達に会いました。" * 100,
    "The invoice for order 48213 was paid on Friday. " * 200,
]


@pytest.fixture(scope="module")
def embedder() -> MiniLMEmbedder:
    return MiniLMEmbedder()


def one(embedder: MiniLMEmbedder, text: str) -> NDArray[np.float32]:
    row: NDArray[np.float32] = embedder.embed([text])[0]
    return row


def cosine(embedder: MiniLMEmbedder, left: str, right: str) -> float:
    rows = embedder.embed([left, right])
    return float(rows[0] @ rows[1])


def test_vectors_are_those_of_the_original(embedder: MiniLMEmbedder) -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    expected = np.array([row["vector"] for row in golden], dtype=np.float32)
    found = embedder.embed([row["text"] for row in golden])
    assert np.einsum("ij,ij->i", found, expected).min() > 0.98


def test_similarities_are_those_the_original_publishes(embedder: MiniLMEmbedder) -> None:
    # The example of the sentence-transformers documentation.
    rows = embedder.embed(
        ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    )
    expected = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]
    np.testing.assert_allclose(rows @ rows.T, expected, atol=0.03)


@pytest.mark.parametrize(
    ("query", "near", "far"),
    [
        ("What is her dog called?", "We named the puppy Biscuit.", "The dog park closes at nine."),
        ("When does the train leave?", "Departure is at 8:40.", "I trained for the marathon."),
        ("refund my order", "I want my money back for this purchase", "I ordered pizza"),
        ("How do I sort a list?", "sorted(items) returns a new list", "Here is the guest list."),
    ],
)
def test_meaning_counts_for_more_than_words(
    embedder: MiniLMEmbedder, query: str, near: str, far: str
) -> None:
    assert cosine(embedder, query, near) > cosine(embedder, query, far)


@pytest.mark.slow
def test_a_vector_does_not_depend_on_what_is_embedded_with_it() -> None:
    alone = [one(MiniLMEmbedder(threads=1), text) for text in ANYTHING]
    together = MiniLMEmbedder(threads=3).embed(ANYTHING * 2)
    np.testing.assert_array_equal(together, np.array(alone * 2))


@pytest.mark.parametrize("text", ANYTHING)
def test_any_text_has_a_unit_vector(embedder: MiniLMEmbedder, text: str) -> None:
    rows = embedder.embed([text])
    assert rows.shape == (1, 384)
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows[0]) == pytest.approx(1, abs=1e-5)


def test_half_a_surrogate_pair_leaves_the_other_words(embedder: MiniLMEmbedder) -> None:
    assert cosine(embedder, "see you on Monday \ud83d", "see you on Monday") > 0.9


def test_no_text_no_rows(embedder: MiniLMEmbedder) -> None:
    assert embedder.embed([]).shape == (0, 384)


def test_tokens_beyond_the_limit_are_ignored(embedder: MiniLMEmbedder) -> None:
    start = "We talked about the garden and the new roses. " * 60
    np.testing.assert_array_equal(one(embedder, start), one(embedder, start + "x " * 500_000))


def test_more_than_the_128_tokens_of_the_tokenizer_file_are_read(embedder: MiniLMEmbedder) -> None:
    start = "rain " * 150
    assert not np.array_equal(one(embedder, start), one(embedder, start + "sunshine " * 50))


def test_blanks_at_the_start_do_not_use_up_the_limit(embedder: MiniLMEmbedder) -> None:
    np.testing.assert_array_equal(one(embedder, "\n" * 10_000 + "hello"), one(embedder, "hello"))


def test_threads_that_meet_at_the_first_call_share_one_model() -> None:
    embedder = MiniLMEmbedder()
    barrier = Barrier(4)

    def embed(text: str) -> NDArray[np.float32]:
        barrier.wait()
        return one(embedder, text)

    texts = ["first", "second", "third", "fourth"]
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(embed, texts))
    np.testing.assert_array_equal(np.array(rows), MiniLMEmbedder(threads=1).embed(texts))


@pytest.mark.process
def test_nothing_heavy_is_loaded_before_the_first_text() -> None:
    program = (
        "import sys\n"
        "from octopus_memory.adapters.embedders.minilm import MiniLMEmbedder\n"
        "embedder = MiniLMEmbedder()\n"
        "embedder.model, embedder.dimension, embedder.embed([])\n"
        "assert not {'onnxruntime', 'tokenizers'} & set(sys.modules)\n"
        "embedder.embed(['a'])\n"
        "assert {'onnxruntime', 'tokenizers'} <= set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("threads", [0, -1])
def test_threads_below_one_are_refused(threads: int) -> None:
    with pytest.raises(InvalidSetting, match="threads"):
        MiniLMEmbedder(threads=threads)


@pytest.mark.parametrize("broken", ["model.onnx", "tokenizer.json"])
def test_a_broken_file_says_to_install_again(tmp_path: Path, broken: str) -> None:
    for file in MODEL.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / broken).write_bytes(b"broken")
    with pytest.raises(EmbedderFailed, match="install octopus-memory again"):
        minilm._load(tmp_path)


def test_missing_files_say_to_install_again(tmp_path: Path) -> None:
    with pytest.raises(EmbedderFailed, match="install octopus-memory again"):
        minilm._load(tmp_path)


def test_the_description_is_that_of_the_files_and_of_the_embedder(
    embedder: MiniLMEmbedder,
) -> None:
    described = json.loads((MODEL / "model.json").read_text(encoding="utf-8"))
    assert described["name"] == MODEL.name
    assert embedder.model.startswith(f"{MODEL.name}-")
    assert described["dimension"] == embedder.dimension
    for name, digest in described["files"].items():
        assert hashlib.sha256((MODEL / name).read_bytes()).hexdigest() == digest


def test_the_license_is_shipped() -> None:
    assert "Apache License" in (MODEL / "LICENSE").read_text(encoding="utf-8")
    assert "sentence-transformers/all-MiniLM-L6-v2" in (MODEL / "NOTICE").read_text(
        encoding="utf-8"
    )
