"""Token counters: approximate, by tiktoken, by a model's `tokenizer.json`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..domain.errors import InvalidSetting, MissingExtra

if TYPE_CHECKING:
    from tiktoken import Encoding


_CHARS_PER_TOKEN = 4


class ApproximateCounter:
    """Counts four characters as one token: good for English, too low for code and other scripts."""

    def count(self, text: str) -> int:
        return -(-len(text) // _CHARS_PER_TOKEN)


class TiktokenCounter:
    """Counts with an encoding, named ("o200k_base"), by its model ("gpt-4o"), or given.

    The library downloads a named encoding on first use; an `Encoding` object needs no network.
    Thread-safe.

    :raises InvalidSetting: if the name is unknown or the encoding cannot be downloaded
    :raises MissingExtra: without the extra `tiktoken`
    """

    def __init__(self, encoding_or_model: str | Encoding) -> None:
        if isinstance(encoding_or_model, str):
            self._encoding = _named(encoding_or_model)
        else:
            self._encoding = encoding_or_model

    def count(self, text: str) -> int:
        """Number of tokens. The names of special tokens count as ordinary text."""
        return len(self._encoding.encode_ordinary(text))


def _named(name: str) -> Encoding:
    try:
        import tiktoken
    except ImportError as error:
        raise MissingExtra("tiktoken", "the tiktoken counter") from error
    try:
        if name in tiktoken.list_encoding_names():
            return tiktoken.get_encoding(name)
        return tiktoken.encoding_for_model(name)
    except KeyError as error:
        raise InvalidSetting(
            "encoding_or_model",
            f"tiktoken knows no {name!r}: give one of "
            f"{', '.join(sorted(tiktoken.list_encoding_names()))}, or a model of OpenAI's",
        ) from error
    except (OSError, ValueError) as error:
        raise InvalidSetting(
            "encoding_or_model",
            f"{name!r} could not be fetched or is damaged: let this machine reach the network "
            "once, set TIKTOKEN_CACHE_DIR to a filled cache, or give an Encoding",
        ) from error


class TokenizerCounter:
    """Counts the model's tokens, without the special tokens around a message. Thread-safe.

    :raises InvalidSetting: if `path` is not a `tokenizer.json`
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        from tokenizers import Tokenizer

        if not Path(path).is_file():
            raise InvalidSetting("path", "is no file: give the model's tokenizer.json")
        try:
            self._tokenizer = Tokenizer.from_file(os.fspath(path))
        except Exception as error:  # the library raises nothing more exact
            raise InvalidSetting(
                "path", "cannot be read as a tokenizer: give the model's tokenizer.json"
            ) from error
        # Tokenizers of embedding models truncate or pad every text to one length.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True

    def count(self, text: str) -> int:
        """Number of tokens. The names of special tokens count as ordinary text."""
        whole = text.encode("utf-8", "replace").decode()
        return len(self._tokenizer.encode(whole, add_special_tokens=False).ids)
