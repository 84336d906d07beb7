"""Reader and judge of answers: chat models behind an OpenAI-compatible endpoint.

Each record is one conversation with the model, so that it sees no other record's context.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from ..adapters import openai_client
from ..domain.errors import InvalidInput, ModelError
from ..settings import Settings
from .answers import Record
from .sheets import (
    MOST_LOOKUPS,
    VERDICTS,
    JudgeSheet,
    Verdict,
    answered_ids,
    append_line,
    judged_ids,
    look_up,
    note_run,
    prompt,
    read_records,
)
from .systems import SharedEmbedder

_SECONDS = 120.0
_RETRIES = 4
_NO_SEARCH = "No search is left."
_OBJECT = re.compile(r"\{.*\}", re.DOTALL)
_VERDICT = re.compile(r"\b(right|partly|wrong)\b", re.IGNORECASE)
_TOOL: Any = {
    "type": "function",
    "function": {
        "name": "recall",
        "description": "Search earlier conversations with this user.",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string", "description": "What to look for."}},
            "required": ["query"],
        },
    },
}

T = TypeVar("T")
Told = Callable[[int, int], None]
"""Callback: the records that are done, and their total."""


class ChatModel:
    """A chat model of OpenAI, or of any endpoint with the same API."""

    def __init__(self, model: str, settings: Settings) -> None:
        key = settings.openai_api_key
        self.name = model
        self._client = openai_client.make_client(
            "octopus bench answers with a model",
            settings.openai_base_url,
            None if key is None else key.get_secret_value(),
            max_retries=_RETRIES,
            timeout=_SECONDS,
        )

    def ask(self, instructions: str, text: str, look: Callable[[str], str] | None = None) -> str:
        """Return the model's answer. With `look` it may search first, `MOST_LOOKUPS` times.

        :raises ModelError: when the endpoint fails or answers nothing
        """
        messages: list[Any] = [
            {"role": "system", "content": instructions},
            {"role": "user", "content": text},
        ]
        left = MOST_LOOKUPS if look is not None else 0
        while True:
            message = self._complete(messages, tools=left > 0)
            calls = message.tool_calls or ()
            if not calls or look is None or not left:
                break
            messages.append(message.model_dump(exclude_none=True))
            for call in calls:
                given = call.function.arguments
                query = str(_object(given).get("query") or given)
                found = look(query) if left else _NO_SEARCH
                left = max(0, left - 1)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": found})
        if not message.content:
            raise ModelError(f"{self.name} answered without text: try again, or another model")
        return str(message.content)

    def close(self) -> None:
        self._client.close()

    def _complete(self, messages: Sequence[Any], *, tools: bool) -> Any:
        import openai  # noqa: PLC0415

        given: dict[str, Any] = {"tools": [_TOOL]} if tools else {}
        try:
            made = self._client.chat.completions.create(
                model=self.name, messages=list(messages), **given
            )
            return made.choices[0].message
        except openai.OpenAIError as error:
            words = openai_client.remedy(
                self._client,
                error,
                too_late=f"gave no answer within {_SECONDS:g} s",
                refused="check the model and its longest input",
            )
            raise ModelError(words) from error
        except (AttributeError, IndexError, TypeError) as error:
            # A server that is not such an API may answer anything.
            host = openai_client.host(self._client)
            raise ModelError(f"{host} gave no chat completion: check the base URL") from error


def answer_all(
    folder: Path,
    model: ChatModel,
    embedder: SharedEmbedder,
    told: Told | None = None,
    *,
    parallel: int = 1,
) -> None:
    """Let a model answer each record that has no answer yet, and write its answers at once."""
    note_run(folder, reader=model.name)
    done = answered_ids(folder)
    todo = [record for record in read_records(folder) if record.id not in done]
    lock = Lock()

    def answer(record: Record) -> None:
        line = _answer(folder, record, model, embedder, lock)
        with lock:
            append_line(folder, "answers", line)

    _each(todo, answer, parallel, told)


def judge_all(
    folder: Path,
    sheet: JudgeSheet,
    model: ChatModel,
    told: Told | None = None,
    *,
    parallel: int = 1,
) -> None:
    """Let a model judge each line of the sheet that has no verdict yet, blindly, one by one."""
    note_run(folder, judge=model.name)
    done = judged_ids(folder)
    todo = [line for line in sheet.lines if line["id"] not in done]
    lock = Lock()

    def judge(line: Mapping[str, Any]) -> None:
        shown = {key: value for key, value in line.items() if key != "id"}
        text = model.ask(prompt("judge"), json.dumps(shown, ensure_ascii=False, indent=1))
        verdict = _verdict(text)
        with lock:
            append_line(folder, "verdicts", {"id": line["id"], "verdict": verdict})

    _each(todo, judge, parallel, told)


def _each(todo: Sequence[T], work: Callable[[T], None], parallel: int, told: Told | None) -> None:
    """Do the work for each, so many at a time. After an error none is begun any more."""
    with ThreadPoolExecutor(parallel) as pool:
        jobs = [pool.submit(work, one) for one in todo]
        try:
            for place, job in enumerate(as_completed(jobs), start=1):
                job.result()
                if told is not None:
                    told(place, len(jobs))
        finally:
            for job in jobs:
                job.cancel()


def _answer(
    folder: Path, record: Record, model: ChatModel, embedder: SharedEmbedder, lock: Lock
) -> Mapping[str, Any]:
    def look(query: str) -> str:
        try:
            with lock:
                return look_up(folder, record, query, embedder)
        except InvalidInput:
            # A run that was stopped had looked up some already.
            return _NO_SEARCH

    started = time.perf_counter()
    text = model.ask(
        prompt("reader"),
        f"question: {record.question}\n\ncontext:\n{record.context}",
        look if record.memory is not None else None,
    )
    found = _object(text)
    return {
        "id": record.id,
        "answer": str(found.get("answer") or text),
        "quote": found.get("quote") or "",
        "seconds": time.perf_counter() - started,
    }


def _verdict(text: str) -> Verdict:
    given = str(_object(text).get("verdict", "")).strip().lower()
    if given not in VERDICTS:
        words = {word.lower() for word in _VERDICT.findall(text)}
        given = words.pop() if len(words) == 1 else ""
    if given not in VERDICTS:
        raise ModelError(
            f"the judge gave no verdict: use a model that answers {', '.join(VERDICTS)}"
        )
    return given


def _object(text: str) -> Mapping[str, Any]:
    """Return the JSON object in an answer, which may stand between other words."""
    found = _OBJECT.search(text)
    try:
        made = json.loads(found[0]) if found else {}
    except ValueError:
        return {}
    return made if isinstance(made, dict) else {}
