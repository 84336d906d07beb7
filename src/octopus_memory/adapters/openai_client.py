"""Client and error messages that the OpenAI-compatible adapters share."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..domain.errors import InvalidSetting, MissingExtra

if TYPE_CHECKING:
    from openai import OpenAI, OpenAIError


_LONGEST_ANSWER = 300


def make_client(
    purpose: str,
    base_url: str | None,
    api_key: str | None,
    *,
    max_retries: int,
    timeout: float | None = None,
) -> OpenAI:
    """A client with a valid address and key.

    Without `base_url`, the key may also come from where the `openai` library looks for it. With a
    `base_url`, only `api_key` is sent, so that no key for OpenAI goes to another host.
    """
    try:
        import openai
    except ImportError as error:
        raise MissingExtra("openai", purpose) from error
    if base_url is not None:
        _check_url(base_url)
        api_key = "none" if api_key is None else api_key
    try:
        client = openai.OpenAI(
            api_key=api_key, base_url=base_url, timeout=timeout, max_retries=max_retries
        )
    except openai.OpenAIError as error:
        raise InvalidSetting("api_key", "is missing: give the endpoint's key") from error
    _check_key(client)
    return client


def remedy(client: OpenAI, error: OpenAIError, *, too_late: str, refused: str) -> str:
    """Cause and remedy of an error, without the endpoint's message, which may quote the text."""
    import openai

    match error:
        case openai.APITimeoutError():
            words = too_late
        case openai.APIConnectionError():
            words = "cannot be reached or hung up: check base_url and the network"
        case openai.APIStatusError(status_code=401 | 403 as status):
            words = f"did not accept the key ({status}): check api_key and what it may use"
        case openai.APIStatusError(status_code=404):
            words = "knows no such model or path (404): check model and base_url"
        case openai.APIStatusError(status_code=429):
            words = "is over the rate limit or quota (429): try later, or raise the quota"
        case openai.APIStatusError(status_code=status) if status >= 500:
            words = f"failed on its side ({status}): try later"
        case openai.APIStatusError(status_code=status):
            words = f"refused the request ({status}): {refused}"
        case _:
            words = f"could not be asked ({type(error).__name__}): check api_key and base_url"
    return f"{host(client)} {words}"


def answer_of(error: OpenAIError) -> str:
    """What the endpoint said of an error, on one line; it may quote what was sent."""
    found = getattr(error, "body", None)
    while isinstance(found, dict):
        found = next((found[name] for name in ("message", "detail", "error") if name in found), "")
    said = " ".join(str(found or "").split())
    return said if len(said) <= _LONGEST_ANSWER else f"{said[:_LONGEST_ANSWER]}…"


def host(client: OpenAI) -> str:
    # Only the host: a URL can contain a password or a key.
    return client.base_url.host


def _check_url(base_url: str) -> None:
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise InvalidSetting("base_url", "must be an address such as http://localhost:8000/v1")


def _check_key(client: OpenAI) -> None:
    # The HTTP library's error for an invalid key would contain the key.
    key = client.api_key
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        client.close()
        raise InvalidSetting(
            "api_key", "is empty or holds a blank, a line break or a character beyond ASCII"
        )
