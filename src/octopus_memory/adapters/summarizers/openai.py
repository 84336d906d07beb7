"""Summarizer by a chat model of OpenAI or any endpoint with a compatible API."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ...domain.episode import SUMMARY_LIMIT, Summary, Turn
from ...domain.errors import InvalidSetting, SummarizerFailed
from ...domain.facts import FACT_LIMIT, MOST_FACTS_OF_EPISODE, FactKind, FoundFact, check_slot
from ...domain.message import Role
from .. import openai_client

if TYPE_CHECKING:
    from openai import OpenAIError

_MAX_FACTS = 10
_MAX_FACT_CHARS = 200
_MAX_TOOL_CHARS = 2_000
_MIN_INPUT_CHARS = 1_000
_CONNECT_SECONDS = 5.0
_CUT = " [… left out …] "

_SCHEMA: Any = {
    "type": "json_schema",
    "json_schema": {
        "name": "episode_summary",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {
                "summary": {"type": "string"},
                "key_facts": {"type": "array", "items": {"type": "string"}},
                "facts": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "kind": {"type": "string", "enum": [kind.value for kind in FactKind]},
                            "text": {"type": "string"},
                            "slot": {"type": "string"},
                            "turn": {"type": "integer"},
                            "ends": {"type": "boolean"},
                        },
                        "required": ["kind", "text", "slot", "turn", "ends"],
                        "additionalProperties": False,
                    },
                },
            },
            "required": ["summary", "key_facts", "facts"],
            "additionalProperties": False,
        },
    },
}
_ANY_OBJECT: Any = {"type": "json_object"}

_UNFINISHED = {
    "length": "the answer was cut off at the model's output limit: use a model with a larger one",
    "content_filter": "the endpoint's content filter stopped the answer",
}
_KINDS = frozenset(kind.value for kind in FactKind)
_SINGLE = frozenset({FactKind.NAME.value, FactKind.HOME.value})
_NOT_TEXT = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


class OpenAISummarizer:
    """Makes summary, key facts and standing facts of an episode in one request. Thread-safe.

    A key from the environment is only sent to OpenAI: another `base_url` gets only `api_key`. An
    episode of more than `max_input_chars` is cut in the middle.

    :raises InvalidSetting: for an invalid value, or without a key
    :raises MissingExtra: without the extra `openai`
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        max_input_chars: int = 60_000,
    ) -> None:
        if not model:
            raise InvalidSetting("model", "is empty: name one, such as 'gpt-4o-mini'")
        if max_input_chars < _MIN_INPUT_CHARS:
            raise InvalidSetting("max_input_chars", f"must be at least {_MIN_INPUT_CHARS:,}")
        self._model = model
        self._max_input_chars = max_input_chars
        # No retries, because they would exceed the caller's timeout.
        self._client = openai_client.make_client(
            "the OpenAI summarizer", base_url, api_key, max_retries=0
        )
        self._form = _SCHEMA
        prompt = files(__package__).joinpath("prompts", "episode_summary.md")
        self._instructions = prompt.read_text(encoding="utf-8")

    @property
    def name(self) -> str:
        return f"openai/{self._model}"

    def summarize(self, turns: Sequence[Turn], *, timeout: float) -> Summary:
        """Send one request and validate the answer. The worker retries, not this method.

        :raises SummarizerFailed: with the cause, without text of the conversation
        """
        lines = "\n".join(_line(turn) for turn in turns if _has_words(turn))
        if not lines:
            raise SummarizerFailed(f"{self.name}: the episode has no text to summarize")
        # Escape closing tags inside the conversation, so that none ends it early.
        conversation = _cut_middle(lines, self._max_input_chars).replace("</", "<\\/")
        messages = [
            {"role": "system", "content": self._instructions},
            {"role": "user", "content": f"<conversation>\n{conversation}\n</conversation>"},
        ]
        body = self._answer(messages, timeout)
        try:
            return _summary(_content(body), turns)
        except SummarizerFailed as error:
            raise SummarizerFailed(f"{self.name}: {error}") from error.__cause__

    def close(self) -> None:
        """Close the connections. The summarizer cannot be used afterwards."""
        self._client.close()

    def _answer(self, messages: Any, timeout: float) -> bytes:
        import openai

        if self._client.is_closed():
            raise SummarizerFailed(f"{self.name}: this summarizer is closed: make a new one")
        deadline = time.monotonic() + timeout
        try:
            return self._ask_in_form(messages, deadline)
        except openai.OpenAIError as error:
            raise SummarizerFailed(self._remedy(error, timeout)) from error
        except Exception as error:
            # While the body is read, errors of the HTTP library come through; which library that
            # is depends on the version of `openai`.
            late = time.monotonic() >= deadline
            words = _too_late(timeout) if late else "broke off in the middle of its answer: retry"
            raise SummarizerFailed(f"{self.name}: {self._host} {words}") from error

    def _ask_in_form(self, messages: Any, deadline: float) -> bytes:
        """Ask for the schema, or for any JSON object if the endpoint does not support schemas."""
        import openai

        form = self._form
        try:
            return self._ask(messages, form, deadline)
        except (openai.BadRequestError, openai.UnprocessableEntityError):
            # Endpoints report missing support in different ways, so retry after any rejection.
            if form is _ANY_OBJECT:
                raise
        body = self._ask(messages, _ANY_OBJECT, deadline)
        self._form = _ANY_OBJECT
        return body

    def _ask(self, messages: Any, form: Any, deadline: float) -> bytes:
        import openai

        left = max(deadline - time.monotonic(), 0.001)
        ask = self._client.chat.completions.with_streaming_response.create
        limits = openai.Timeout(left, connect=min(left, _CONNECT_SECONDS))
        with ask(
            model=self._model, messages=messages, response_format=form, timeout=limits
        ) as answer:
            body = bytearray()
            # The library's timeout is per read, and some gateways send blanks while they wait.
            for chunk in answer.iter_bytes():
                body += chunk
                if time.monotonic() >= deadline:
                    raise TimeoutError
        return bytes(body)

    @property
    def _host(self) -> str:
        return openai_client.host(self._client)

    def _remedy(self, error: OpenAIError, timeout: float) -> str:
        words = openai_client.remedy(
            self._client,
            error,
            too_late=_too_late(timeout),
            refused="check that the model can answer in JSON, or lower max_input_chars",
        )
        return f"{self.name}: {words}"


def _too_late(timeout: float) -> str:
    return f"gave no whole answer within {timeout:g} s: raise the time-out, or try later"


def _has_words(turn: Turn) -> bool:
    # System turns are the agent's instructions, not part of the conversation.
    return turn.role != Role.SYSTEM and bool(turn.text.strip() or turn.message.requests)


def _line(turn: Turn) -> str:
    text = turn.text
    called = [_function(request) for request in turn.message.requests]
    if turn.role == Role.TOOL:
        text = _cut_middle(text, _MAX_TOOL_CHARS)
        called = [turn.tool_call.function_name] if turn.tool_call else []
    line: dict[str, Any] = {
        "turn": turn.ordinal,
        "at": turn.at.strftime("%Y-%m-%d %H:%M"),
        "role": turn.role.value,
        "name": turn.message.name or turn.agent,
        "tools": called,
        "text": text,
    }
    given = {key: value for key, value in line.items() if value or key == "turn"}
    # Each turn on one line, so that no text can pass for the next turn; no lone surrogates.
    return json.dumps(given, ensure_ascii=False).encode("utf-8", "replace").decode()


def _function(request: Mapping[str, Any]) -> str:
    function = request.get("function")
    name = function.get("name") if isinstance(function, Mapping) else None
    return name if isinstance(name, str) else "unnamed"


def _cut_middle(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = (limit - len(_CUT)) // 2
    return text[:half] + _CUT + text[-half:]


def _content(body: bytes) -> str:
    """Text of a completed answer.

    :raises SummarizerFailed: if there is none
    """
    try:
        choice = json.loads(body)["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        content, refusal = message.get("content"), message.get("refusal")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise SummarizerFailed(
            "the answer is malformed, not a chat completion: check that base_url is an "
            "OpenAI-compatible API (most end in /v1)"
        ) from error
    if refusal:
        raise SummarizerFailed("the model refused to summarize this episode")
    if reason in _UNFINISHED:
        raise SummarizerFailed(_UNFINISHED[reason])
    if not isinstance(content, str) or not content.strip():
        raise SummarizerFailed("the model's answer is empty")
    return content


def _summary(content: str, turns: Sequence[Turn]) -> Summary:
    # Without a schema, models put the JSON into a code block, or thoughts before it.
    start, end = content.find("{"), content.rfind("}") + 1
    try:
        given = json.loads(content[start:end])
    except (ValueError, RecursionError) as error:
        raise SummarizerFailed("the model's answer is malformed JSON: try another model") from error
    text, facts = given.get("summary"), given.get("key_facts")
    shaped = isinstance(text, str) and isinstance(facts, list)
    if not shaped or not all(isinstance(fact, str) for fact in facts):
        raise SummarizerFailed(
            "the model's answer has the wrong shape, not a summary and key_facts: "
            "try a model that knows structured output"
        )
    text = _limited(text, SUMMARY_LIMIT)
    if not text:
        raise SummarizerFailed("the model's summary is empty")
    return Summary(text=text, key_facts=_distinct(facts), facts=_standing(given, turns))


def _standing(given: Mapping[str, Any], turns: Sequence[Turn]) -> tuple[FoundFact, ...]:
    """Valid standing facts of an answer; invalid ones are dropped.

    Of the facts of one kind and slot, the last one counts.
    """
    listed = given.get("facts")
    ordinals = frozenset(turn.ordinal for turn in turns if turn.role != Role.SYSTEM)
    found: dict[tuple[FactKind, str], FoundFact] = {}
    for each in listed if isinstance(listed, list) else ():
        fact = _fact(each, ordinals)
        if fact is not None:
            found.pop((fact.kind, fact.slot), None)
            found[fact.kind, fact.slot] = fact
    return tuple(found.values())[:MOST_FACTS_OF_EPISODE]


def _fact(given: object, ordinals: frozenset[int]) -> FoundFact | None:
    """A fact, or None if it does not match the schema."""
    match given:
        case {
            "kind": str(kind),
            "text": str(text),
            "slot": str(slot),
            "turn": int(turn),
            "ends": bool(ends),
        } if kind in _KINDS and turn in ordinals and not isinstance(turn, bool):
            line = _limited(text, FACT_LIMIT)
            slot = check_slot(_NOT_TEXT.sub(" ", slot))
            # Only names and homes have a single value; other facts replace only equal ones.
            if not slot and kind not in _SINGLE:
                slot = check_slot(line)
            fact = FoundFact(kind=FactKind(kind), text=line, ordinal=turn, slot=slot, ends=ends)
            return fact if line else None
    return None


def _distinct(facts: Sequence[str]) -> tuple[str, ...]:
    first: dict[str, str] = {}
    for fact in facts:
        limited = _limited(fact, _MAX_FACT_CHARS)
        if limited:
            first.setdefault(limited.rstrip(".!").casefold(), limited)
    return tuple(first.values())[:_MAX_FACTS]


def _limited(text: str, limit: int) -> str:
    """Text on one line, cut after a word if it is too long."""
    line = _NOT_TEXT.sub(" ", text).strip()
    if len(line) <= limit:
        return line
    head = line[: limit - 1]
    blank = head.rfind(" ")
    # Some scripts have no spaces: keep the whole head rather than lose much of it.
    return (head[:blank] if blank > limit * 3 // 4 else head).rstrip() + "…"
