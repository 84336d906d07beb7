"""The two agents of `octopus chat`: a model, and an echo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ...domain.errors import InvalidSetting, MissingExtra, ModelError
from ...domain.message import Json

if TYPE_CHECKING:
    from openai import OpenAI

    from ...settings import Settings

_SECONDS = 120.0


class Answerer(Protocol):
    @property
    def name(self) -> str: ...

    def answer(self, messages: Sequence[dict[str, Json]]) -> str:
        """Return the text of the answer.

        :raises ModelError: when there is none
        """

    def close(self) -> None: ...


def answerer(settings: Settings) -> Answerer:
    """Return the chat model if a key or an address is set, else the echo."""
    if settings.openai_base_url is None and settings.openai_api_key is None:
        return Echo()
    return ChatModel(settings)


class Echo:
    """Repeats the message. Memory works with it as with a model."""

    name = "echo"

    def answer(self, messages: Sequence[dict[str, Json]]) -> str:
        return f"You said: {messages[-1]['content']}"

    def close(self) -> None:
        pass


class ChatModel:
    """Asks a chat model of OpenAI, or of any endpoint with the same API."""

    def __init__(self, settings: Settings) -> None:
        self._model = settings.chat_model
        self._client = _client(settings)

    @property
    def name(self) -> str:
        return self._model

    def answer(self, messages: Sequence[dict[str, Json]]) -> str:
        import openai

        asked: Any = list(messages)
        try:
            made = self._client.chat.completions.create(model=self._model, messages=asked)
            text = made.choices[0].message.content
        except openai.APIStatusError as error:
            raise ModelError(
                self._remedy(_STATUS.get(error.status_code), error.status_code)
            ) from error
        except openai.APITimeoutError as error:
            raise ModelError(self._remedy(f"gave no answer within {_SECONDS:g} s")) from error
        except openai.APIConnectionError as error:
            words = "cannot be reached: check OCTOPUS_OPENAI_BASE_URL and the network"
            raise ModelError(self._remedy(words)) from error
        except Exception as error:
            # A server that is not such an API may answer anything, and the library does not check.
            words = "gave no chat completion: check that OCTOPUS_OPENAI_BASE_URL ends as it should"
            raise ModelError(self._remedy(words)) from error
        if not text:
            raise ModelError(self._remedy("answered without text"))
        return str(text)

    def close(self) -> None:
        self._client.close()

    def _remedy(self, words: str | None, status: int | None = None) -> str:
        seen = "" if status is None else f" (status {status})"
        return f"{self._model} at {self._client.base_url.host} {words or 'refused'}{seen}"


def _client(settings: Settings) -> OpenAI:
    try:
        import openai
    except ImportError as error:
        raise MissingExtra("openai", "octopus chat with a model") from error
    key = settings.openai_api_key
    # A server that the user runs may need no key.
    given = "none" if key is None else key.get_secret_value()
    if not given or not given.isascii() or not given.isprintable() or " " in given:
        raise InvalidSetting(
            "openai_api_key",
            "must not be empty, and must not contain blanks or non-ASCII characters",
        )
    return openai.OpenAI(api_key=given, base_url=settings.openai_base_url, timeout=_SECONDS)


_STATUS = {
    401: "did not accept the key: check OCTOPUS_OPENAI_API_KEY",
    403: "does not let this key use the model: check OCTOPUS_OPENAI_API_KEY",
    404: "knows no such model or path: check OCTOPUS_CHAT_MODEL and OCTOPUS_OPENAI_BASE_URL",
    429: "is over its rate limit or quota: wait, or raise the quota",
}
