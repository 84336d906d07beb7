"""The token counters, with tokenizers built in the test, without downloads."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from octopus_memory.adapters.tokens import ApproximateCounter, TiktokenCounter, TokenizerCounter
from octopus_memory.domain.errors import InvalidSetting, MissingExtra
from octopus_memory.domain.message import Message, message_tokens

HALF_PAIR = "half \ud83d pair"


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("four", 1), ("fives", 2), ("é" * 8, 2)]
)
def test_four_characters_are_about_a_token(text: str, tokens: int) -> None:
    assert ApproximateCounter().count(text) == tokens


@pytest.fixture
def tokenizer_file(tmp_path: Path) -> Path:
    """A tokenizer with one token per word that adds special tokens, truncates and pads to four."""
    words = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "the", "sea", "is", "wide", "[", "]"]
    tokenizer = Tokenizer(WordLevel({word: place for place, word in enumerate(words)}, "[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.add_special_tokens(["[UNK]", "[CLS]", "[SEP]", "[PAD]"])
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=4, pad_id=3, pad_token="[PAD]")
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("the", 1),
        ("the sea is wide", 4),
        ("the sea is wide " * 50, 200),
        ("the [SEP] sea", 5),
        (HALF_PAIR, 3),
    ],
)
def test_a_tokenizer_file_counts_exactly(tokenizer_file: Path, text: str, tokens: int) -> None:
    assert TokenizerCounter(tokenizer_file).count(text) == tokens
    assert TokenizerCounter(str(tokenizer_file)).count(text) == tokens


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff\xfe"])
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidSetting, match="path: .*give the model's tokenizer.json"):
        TokenizerCounter(path)


@pytest.fixture
def encoding() -> tiktoken.Encoding:
    """An encoding with a token per byte, one for "sea", and a special token."""
    ranks = {bytes([byte]): byte for byte in range(256)} | {b"se": 256, b"sea": 257}
    return tiktoken.Encoding(
        "bytes", pat_str=r"\S+|\s+", mergeable_ranks=ranks, special_tokens={"<|end|>": 258}
    )


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("sea", 1), ("seaside", 5), ("é", 2), ("sea<|end|>", 8)]
)
def test_an_encoding_counts_exactly_and_offline(
    encoding: tiktoken.Encoding, text: str, tokens: int
) -> None:
    assert TiktokenCounter(encoding).count(text) == tokens


def test_special_tokens_and_half_pairs_are_ordinary_text(encoding: tiktoken.Encoding) -> None:
    counter = TiktokenCounter(encoding)
    assert counter.count("<|end|>") == len("<|end|>")
    assert counter.count(HALF_PAIR) == counter.count("half \N{REPLACEMENT CHARACTER} pair")


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidSetting, match="knows no 'no-such-model'.*o200k_base"):
        TiktokenCounter("no-such-model")


@pytest.mark.parametrize("name", ["p50k_edit", "text-davinci-edit-001"])
def test_an_encoding_that_cannot_be_fetched_says_what_to_do(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{closed.getsockname()[1]}")
        for variable in ("https_proxy", "NO_PROXY", "no_proxy"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
        with pytest.raises(InvalidSetting, match="TIKTOKEN_CACHE_DIR"):
            TiktokenCounter(name)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(MissingExtra, match=r"octopus-memory\[tiktoken\]"):
        TiktokenCounter("o200k_base")


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        ({"type": "text", "text": "x" * 400}, 100),
        ({"type": "tool_result", "content": "x" * 400}, 109),
        ({"type": "input_audio", "input_audio": {"data": "x" * 100_000}}, 1_000),
        ({"type": "image_url", "image_url": {"url": "data:" + "x" * 100_000}}, 1_000),
    ],
)
def test_non_text_parts_cost_tokens(part: dict[str, Any], tokens: int) -> None:
    message = Message({"role": "user", "content": [part]})
    assert message_tokens(message, lambda text: len(text) // 4) == 4 + tokens
