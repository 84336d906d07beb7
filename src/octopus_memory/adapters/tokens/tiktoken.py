"""Exact token counts for OpenAI's models, with tiktoken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...domain.errors import InvalidSetting, MissingExtra

if TYPE_CHECKING:
    from tiktoken import Encoding


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
