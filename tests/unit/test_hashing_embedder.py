from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopus_memory.adapters.embedders.hashing import HashingEmbedder
from octopus_memory.domain.errors import InvalidSetting


def cosine(left: str, right: str) -> float:
    rows = HashingEmbedder().embed([left, right])
    return float(rows[0] @ rows[1])


@given(st.lists(st.text(st.characters())), st.sampled_from([1, 2, 256]))
def test_any_texts_have_unit_vectors(texts: list[str], dimension: int) -> None:
    rows = HashingEmbedder(dimension).embed(texts)
    assert rows.shape == (len(texts), dimension)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_half_surrogate_pairs_are_taken() -> None:
    assert cosine("see you on Monday \ud83d", "see you on Monday") > 0.9


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("my dog is called Biscuit", "what is the dog called", "the invoice is overdue"),
        ("gardening", "gardens", "invoice"),
        ("The weather is lovely", "the WEATHER is lovely!", "He drove to the stadium"),
    ],
)
def test_shared_words_and_letters_bring_texts_near(text: str, near: str, far: str) -> None:
    assert cosine(text, near) > cosine(text, far) + 0.2


def test_texts_without_a_common_word_are_far_apart() -> None:
    assert abs(cosine("quarterly invoice overdue", "puppy photo album")) < 0.3


def test_a_vector_does_not_depend_on_the_others() -> None:
    texts = ["first text", "", "third, longer text with more words"]
    embedder = HashingEmbedder()
    alone = np.concatenate([embedder.embed([text]) for text in texts])
    np.testing.assert_array_equal(embedder.embed(texts), alone)


@pytest.mark.process
def test_another_process_gives_the_same_vector() -> None:
    # Python's own hash() differs from process to process.
    text = "the same everywhere"
    program = (
        "import sys\n"
        "from octopus_memory.adapters.embedders.hashing import HashingEmbedder\n"
        f"sys.stdout.buffer.write(HashingEmbedder().embed([{text!r}]).tobytes())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == HashingEmbedder().embed([text]).tobytes()


def test_the_dimension_is_part_of_the_space() -> None:
    assert HashingEmbedder().model == "hashing-256"
    assert HashingEmbedder(64).model == "hashing-64"
    assert HashingEmbedder(64).dimension == 64


@pytest.mark.parametrize("dimension", [0, -8])
def test_a_dimension_below_one_is_refused(dimension: int) -> None:
    with pytest.raises(InvalidSetting, match="dimension"):
        HashingEmbedder(dimension)
