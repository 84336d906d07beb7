"""Summarizer by a chat model of OpenAI or any endpoint with a compatible API."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ...domain.episode import SUMMARY_LIMIT, Summary, Turn
from ...domain.errors import InvalidSetting, SummarizerFailed
from ...domain.facts import FACT_LIMIT, MOST_FACTS_OF_EPISODE, FactKind, FoundFact, check_slot
from ...domain.message import Role
from .. import openai_client
from .extractive import ExtractiveSummarizer
from .grounding import Grounding, NotSaid

if TYPE_CHECKING:
    from openai import OpenAIError

_MAX_FACTS = 10
_MAX_FACT_CHARS = 200
_MAX_TOOL_CHARS = 2_000
_MIN_INPUT_CHARS = 1_000
_CONNECT_SECONDS = 5.0
_QUOTED_CHARS = 16
_OBJECT_SHARE = 0.6
_MOST_TOKENS = 1_500
"""Most tokens of an answer without a schema, whose end a weak model may not find."""
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
_TEXT: Any = None
_FORMS = (_SCHEMA, _ANY_OBJECT, _TEXT)
"""Forms of an answer, from the strictest to the one that every endpoint gives."""
_FORM_WORDS = ("response_format", "json_schema", "json_object", "structured output")
_SERVER_ERROR = 500
_STEP_DOWN = frozenset({400, 415, 422, 500, 501})
"""Statuses by which endpoints refuse a form. A 500 says so in its message, or may pass."""

_UNFINISHED = {
    "length": "the answer was cut off at the model's output limit: use a model with a larger one",
    "content_filter": "the endpoint's content filter stopped the answer",
}
_KINDS = frozenset(kind.value for kind in FactKind)
_SINGLE = frozenset({FactKind.NAME.value, FactKind.HOME.value})
_DECODER = json.JSONDecoder()
_MOST_OBJECTS = 100
_THOUGHTS = re.compile(r"<think>.*?(?:</think>|\Z)|```\w*", re.DOTALL)
_LABEL = re.compile(r"\A[\s*#]*summary[\s*]*:[\s*]*", re.IGNORECASE)
_LINE_TEXT = re.compile(r'"text": "([^"]+)"\}')
_TELLING = re.compile(r"\S+@\S+|\d{3,}")
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
        self._first = self._doubts = 0
        self._extractive = ExtractiveSummarizer()
        prompts = files(__package__).joinpath("prompts")
        self._instructions = prompts.joinpath("episode_summary.md").read_text(encoding="utf-8")
        self._plain = prompts.joinpath("plain_summary.md").read_text(encoding="utf-8")

    @property
    def name(self) -> str:
        return f"openai/{self._model}"

    @property
    def form(self) -> str:
        """The form in which the endpoint answers, as far as it is known."""
        form: Any = _FORMS[self._first]
        return "text" if form is _TEXT else str(form["type"])

    def summarize(self, turns: Sequence[Turn], *, timeout: float) -> Summary:
        """Ask for a summary and check it. The worker retries, not this method.

        An endpoint that does not support a form, or a model that does not keep to it, is asked in
        the next simpler form. What nobody said is dropped from the answer.

        :raises SummarizerFailed: with the cause, without text of the conversation
        """
        lines = "\n".join(_line(turn) for turn in turns if _has_words(turn))
        if not lines:
            raise SummarizerFailed(f"{self.name}: the episode has no text to summarize")
        # Escape closing tags inside the conversation, so that none ends it early.
        conversation = _cut_middle(lines, self._max_input_chars).replace("</", "<\\/")
        deadline = time.monotonic() + timeout
        wrong: Exception = AssertionError()
        unsupported: list[_Unsupported] = []
        for place in range(self._first, len(_FORMS)):
            try:
                body = self._answer(conversation, _FORMS[place], deadline, timeout)
                self._remember(unsupported)
                unsupported.clear()
                made = _summary(
                    _content(body, _FORMS[place]), turns, is_plain=_FORMS[place] is _TEXT
                )
                checked = Grounding(turns, self._instructions).check(made)
                if _FORMS[place] is _TEXT and not checked.key_facts:
                    # A text names no key facts.
                    checked = replace(checked, key_facts=self._extractive.key_facts(turns))
            except _Unsupported as error:
                unsupported.append(error)
                wrong = error
            except (_Misshapen, NotSaid) as error:
                # The model's fault and not the endpoint's: the next episode may fare better.
                wrong = error
            except _Unusable as error:
                wrong = error
                break
            else:
                return checked
        raise SummarizerFailed(f"{self.name}: {wrong}") from wrong.__cause__

    def _remember(self, unsupported: Sequence[_Unsupported]) -> None:
        """Ask for less from now on, where the same request was answered in a simpler form.

        An error that does not name the form may have been a passing one, unless it comes twice.
        """
        if not unsupported:
            self._doubts = 0
            return
        self._doubts += 1
        if self._doubts > 1 or all(error.is_certain for error in unsupported):
            self._first = min(self._first + len(unsupported), len(_FORMS) - 1)
            self._doubts = 0

    def close(self) -> None:
        """Close the connections. The summarizer cannot be used afterwards."""
        self._client.close()

    def _answer(self, conversation: str, form: Any, deadline: float, timeout: float) -> bytes:
        import openai

        if self._client.is_closed():
            raise SummarizerFailed(f"{self.name}: this summarizer is closed: make a new one")
        try:
            return self._ask(conversation, form, deadline)
        except openai.APITimeoutError as error:
            if form is _ANY_OBJECT and time.monotonic() < deadline:
                raise _Misshapen(f"{self._host} {_too_late(timeout)}") from error
            raise SummarizerFailed(f"{self.name}: {self._remedy(error, timeout)}") from error
        except openai.APIStatusError as error:
            words = self._remedy(error, timeout, conversation)
            if error.status_code in _STEP_DOWN and form is not _TEXT:
                said = openai_client.answer_of(error).casefold()
                is_certain = error.status_code < _SERVER_ERROR or any(
                    each in said for each in _FORM_WORDS
                )
                raise _Unsupported(words, is_certain=is_certain) from error
            raise SummarizerFailed(f"{self.name}: {words}") from error
        except openai.OpenAIError as error:
            raise SummarizerFailed(f"{self.name}: {self._remedy(error, timeout)}") from error
        except Exception as error:
            # While the body is read, errors of the HTTP library come through; which library that
            # is depends on the version of `openai`.
            late = time.monotonic() >= deadline
            if form is _ANY_OBJECT and not late and isinstance(error, TimeoutError):
                raise _Misshapen(f"{self._host} {_too_late(timeout)}") from error
            words = _too_late(timeout) if late else "broke off in the middle of its answer: retry"
            raise SummarizerFailed(f"{self.name}: {self._host} {words}") from error

    def _ask(self, conversation: str, form: Any, deadline: float) -> bytes:
        import openai

        left = max(deadline - time.monotonic(), 0.001)
        if form is _ANY_OBJECT:
            # Small models write blanks without an end where any object is right: text needs time.
            left *= _OBJECT_SHARE
        until = time.monotonic() + left
        ask = self._client.chat.completions.with_streaming_response.create
        limits = openai.Timeout(left, connect=min(left, _CONNECT_SECONDS))
        instructions = self._plain if form is _TEXT else self._instructions
        messages: Any = [
            {"role": "system", "content": instructions},
            {"role": "user", "content": f"<conversation>\n{conversation}\n</conversation>"},
        ]
        asked: dict[str, Any] = {} if form is _TEXT else {"response_format": form}
        if form is not _SCHEMA:
            asked["max_tokens"] = _MOST_TOKENS
        with ask(model=self._model, messages=messages, timeout=limits, **asked) as answer:
            body = bytearray()
            # The library's timeout is per read, and some gateways send blanks while they wait.
            for chunk in answer.iter_bytes():
                body += chunk
                if time.monotonic() >= until:
                    raise TimeoutError
        return bytes(body)

    @property
    def _host(self) -> str:
        return openai_client.host(self._client)

    def _remedy(self, error: OpenAIError, timeout: float, conversation: str = "") -> str:
        words = openai_client.remedy(
            self._client,
            error,
            too_late=_too_late(timeout),
            refused="check that the model can answer in JSON, or lower max_input_chars",
        )
        said = openai_client.answer_of(error)
        if not said or _quotes(said, conversation) or self._client.api_key in said:
            return words
        return f"{words}. It answered: {said}"


class _Unusable(Exception):
    """Raised for an answer that holds no summary."""


class _Misshapen(_Unusable):
    """Raised for an answer of another shape, which a simpler form may mend."""


class _Unsupported(Exception):
    """Raised where an endpoint refuses a request, perhaps for the form that it asks for."""

    def __init__(self, words: str, *, is_certain: bool) -> None:
        super().__init__(words)
        self.is_certain = is_certain
        """False where it may be a passing failure, which is no reason to ask for less later."""


def _quotes(said: str, conversation: str) -> bool:
    """Return whether an endpoint's message may quote the conversation, which no log may hold."""
    slices = (said[at : at + _QUOTED_CHARS] for at in range(len(said) - _QUOTED_CHARS + 1))
    short = (text for text in _LINE_TEXT.findall(conversation) if len(text) < _QUOTED_CHARS)
    return any(each in conversation for each in (*slices, *_TELLING.findall(said))) or any(
        text in said for text in short
    )


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


def _content(body: bytes, form: Any) -> str:
    """Text of a completed answer.

    :raises _Unusable: if there is none
    """
    try:
        choice = json.loads(body)["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        content, refusal = message.get("content"), message.get("refusal")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise _Unusable(
            "the answer is malformed, not a chat completion: check that base_url is an "
            "OpenAI-compatible API (most end in /v1)"
        ) from error
    if refusal:
        raise _Unusable("the model refused to summarize this episode")
    if reason in _UNFINISHED:
        # A model that finds no end of an object may find one of a text.
        raise (_Unusable if form is _SCHEMA else _Misshapen)(_UNFINISHED[reason])
    if not isinstance(content, str) or not content.strip():
        raise _Unusable("the model's answer is empty")
    return content


def _summary(content: str, turns: Sequence[Turn], *, is_plain: bool) -> Summary:
    """Read an answer: the first JSON object with a summary, or with `is_plain` the text itself.

    Models put the JSON into a code block, or thoughts before it.
    """
    given = _object(content)
    if given is None and is_plain:
        prose = _LABEL.sub("", _THOUGHTS.sub("", content)).strip()
        given = None if prose.startswith(("{", "[")) else {"summary": prose}
    if given is None:
        raise _Misshapen("the model's answer is malformed JSON: try another model")
    text, facts = given.get("summary"), given.get("key_facts", [] if is_plain else None)
    is_list = isinstance(facts, list) and all(isinstance(fact, str) for fact in facts)
    if not isinstance(text, str) or not isinstance(facts, list) or not is_list:
        raise _Misshapen(
            "the model's answer has the wrong shape, not a summary and key_facts: "
            "try a model that knows structured output"
        )
    text = _limited(text, SUMMARY_LIMIT)
    if not text:
        raise _Misshapen("the model's summary is empty")
    return Summary(text=text, key_facts=_distinct(facts), facts=_standing(given, turns))


def _object(content: str) -> dict[str, Any] | None:
    """The first JSON object that has a summary, or else the first one; None without any."""
    first, at = None, content.find("{")
    for _ in range(_MOST_OBJECTS):
        if at < 0:
            break
        try:
            found, end = _DECODER.raw_decode(content, at)
        except (ValueError, RecursionError):
            at = content.find("{", at + 1)
            continue
        if "summary" in found:
            return dict(found)
        first = found if first is None else first
        at = content.find("{", end)
    return first


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
