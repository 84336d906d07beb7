"""Exact token counts for any model that publishes a Hugging Face `tokenizer.json`."""

from __future__ import annotations

import os
from pathlib import Path

from ...domain.errors import InvalidSetting


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
