"""Embeddings from OpenAI or any endpoint with a compatible API."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...domain.errors import EmbedderFailed, InvalidSetting
from .. import openai_client

if TYPE_CHECKING:
    from openai import OpenAIError

_OWN_DIMENSION = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
_CANNOT_SHORTEN = {"text-embedding-ada-002"}

# The API accepts 8,192 tokens per text. Three bytes per token is about right from English to
# Japanese; denser text (Chinese, base64) is rejected and then halved.
_MAX_BYTES = 24_000
_MAX_BATCH = 2_048
_MIN_CHARS = 500

# Status codes for a text that is too long or a batch that is too large.
_TOO_MUCH = {400, 413, 422}

_MAX_RETRIES = 2


class OpenAIEmbedder:
    """Embeds texts over HTTP. Thread-safe.

    `dimension` asks the model to shorten its vectors; by default they have the model's own length.
    A key from the environment is only sent to OpenAI: another `base_url` gets only `api_key`.

    :raises InvalidSetting: for an invalid value, or without a key
    :raises MissingExtra: without the extra `openai`
    """

    def __init__(
        self,
        model: str,
        dimension: int | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 30.0,
        batch: int = 128,
    ) -> None:
        _check_size(model, dimension)
        if not timeout > 0:
            raise InvalidSetting("timeout", "must be above zero seconds")
        if not 1 <= batch <= _MAX_BATCH:
            raise InvalidSetting("batch", f"must be between 1 and {_MAX_BATCH:,} texts a request")
        own = _OWN_DIMENSION.get(model)
        self._name = model
        self._shortened = dimension if dimension != own else None
        self._dimension = dimension or own
        self._timeout = timeout
        self._batch = batch
        self._client = openai_client.make_client(
            "the OpenAI embedder", base_url, api_key, timeout=timeout, max_retries=_MAX_RETRIES
        )

    @property
    def model(self) -> str:
        """Name of the vector space: the model, and the dimension if it is shortened."""
        suffix = f"@{self._shortened}" if self._shortened else ""
        return f"openai/{self._name}{suffix}"

    @property
    def dimension(self) -> int:
        """Dimension of the vectors. For an unknown model, the first call asks the endpoint."""
        if self._dimension is None:
            self._dimension = self._vectors([" "]).shape[1]
        return self._dimension

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit vector per text, in order. Texts that are too long are truncated.

        :raises EmbedderFailed: if the endpoint fails in any way; retrying is safe
        """
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        sendable = [_sendable(text) for text in texts]
        starts = range(0, len(sendable), self._batch)
        rows = [self._vectors(sendable[start : start + self._batch]) for start in starts]
        return np.concatenate(rows)

    def close(self) -> None:
        """Close the connections. The embedder cannot be used afterwards."""
        self._client.close()

    def _vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import openai

        try:
            body = self._ask(texts)
        except openai.APIStatusError as error:
            # Endpoints do not publish their limits: retry with less.
            parts = _smaller(texts) if error.status_code in _TOO_MUCH else []
            if not parts:
                raise EmbedderFailed(self._remedy(error)) from error
        except openai.OpenAIError as error:
            raise EmbedderFailed(self._remedy(error)) from error
        else:
            return self._read(body, len(texts))
        return np.concatenate([self._vectors(part) for part in parts])

    def _ask(self, texts: Sequence[str]) -> bytes:
        if self._client.is_closed():
            raise EmbedderFailed(f"{self.model}: this embedder is closed: make a new one")
        shortened: dict[str, Any] = {"dimensions": self._shortened} if self._shortened else {}
        # Parse the raw body, because the library does not validate it. Ask for floats, because not
        # every endpoint supports base64, the library's default.
        response = self._client.embeddings.with_raw_response.create(
            model=self._name, input=list(texts), encoding_format="float", **shortened
        )
        return response.content

    def _read(self, body: bytes, count: int) -> NDArray[np.float32]:
        try:
            data = json.loads(body)["data"]
            order = [item.get("index", i) for i, item in enumerate(data)]
            rows = np.array([item["embedding"] for item in data], dtype=np.float64)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise EmbedderFailed(
                f"{self.model}: {self._host} answered with something that is no list of "
                "embeddings: check that base_url is an OpenAI-compatible API (most end in /v1)"
            ) from error
        if sorted(order) != list(range(count)):
            raise EmbedderFailed(
                f"{self.model}: {self._host} answered with {len(order)} vectors for {count} texts, "
                "or with wrong numbers on them: try again, or with a smaller batch"
            )
        return self._unit(rows[np.argsort(order)])

    def _unit(self, rows: NDArray[np.float64]) -> NDArray[np.float32]:
        size = rows.shape[1] if rows.ndim == 2 else 0
        if not size or size != (self._dimension or size):
            raise EmbedderFailed(
                f"{self.model}: {self._host} answered with vectors of {size} numbers where "
                f"{self._dimension or 'some'} were expected: leave dimension out if the model "
                "cannot shorten its vectors, and give a changed model a new name"
            )
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        if not (np.isfinite(lengths).all() and lengths.all()):
            raise EmbedderFailed(
                f"{self.model}: {self._host} answered with a vector that has no direction "
                "(zeros, NaN or infinity): check the model it runs"
            )
        self._dimension = size
        unit: NDArray[np.float32] = (rows / lengths).astype(np.float32)
        return unit

    @property
    def _host(self) -> str:
        return openai_client.host(self._client)

    def _remedy(self, error: OpenAIError) -> str:
        words = openai_client.remedy(
            self._client,
            error,
            too_late=f"gave no answer within {self._timeout:g} s: raise timeout, or try later",
            refused="check model, dimension and batch",
        )
        return f"{self.model}: {words}"


def _check_size(model: str, dimension: int | None) -> None:
    if not model:
        raise InvalidSetting("model", "is empty: name one, such as 'text-embedding-3-small'")
    if dimension is None:
        return
    own = _OWN_DIMENSION.get(model)
    if dimension < 1:
        raise InvalidSetting("dimension", "must be at least 1")
    if own and (dimension > own or (dimension < own and model in _CANNOT_SHORTEN)):
        raise InvalidSetting("dimension", f"{model} has {own:,} and cannot make it {dimension:,}")


def _sendable(text: str) -> str:
    """The text as every endpoint accepts it: not empty, not too long, no lone surrogate."""
    encoded = text[:_MAX_BYTES].encode("utf-8", "replace")[:_MAX_BYTES]
    return encoded.decode("utf-8", "ignore") or " "


def _smaller(texts: Sequence[str]) -> list[Sequence[str]]:
    """Two halves of a batch, or the first half of a single text; empty if it is short already."""
    if len(texts) > 1:
        middle = len(texts) // 2
        return [texts[:middle], texts[middle:]]
    text = texts[0]
    return [[text[: len(text) // 2]]] if len(text) > _MIN_CHARS else []
