"""Conversion of messages between the chat-completion format and other providers' formats.

A message of another format is stored as the equivalent chat-completion message, with the original
item beside it under `as_given`. A message with several tool results becomes one turn for each;
`messages` joins them again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from .errors import InvalidMessage
from .message import AS_GIVEN, Json, Message, MessageLike, as_text, is_deep

FORMS = ("openai", "responses", "anthropic", "gemini")
"""Formats that `messages(form=…)` returns: chat completions, and three others."""
_BLOCKS = frozenset(
    (
        "tool_use",
        "tool_result",
        "thinking",
        "redacted_thinking",
        "server_tool_use",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "mcp_tool_use",
        "mcp_tool_result",
        "compaction",
    )
)
_SPOKEN = frozenset(("text", "input_text", "output_text", "refusal"))
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_RESULTS = frozenset(("function_call_output", "custom_tool_call_output"))
_ROLES = {"developer": "system", "model": "assistant", "function": "user", "tool": "user"}


def parts_of(given: MessageLike) -> Sequence[MessageLike]:
    """Return the turns of a message: the message itself, if it is a chat-completion message."""
    # `isinstance` with an ABC takes longer than everything else here, so test for tuple and dict
    # first.
    if isinstance(given, tuple) or not (type(given) is dict or isinstance(given, Mapping)):
        return [given]
    content, kind = given.get("content"), given.get("type")
    if AS_GIVEN in given or (kind is None and isinstance(content, str)):
        return [given]
    # What is not plain JSON stays as it is, because parsing rejects it and names its field.
    if is_deep(given):
        return [given]
    try:
        return _converted(given, content, kind)
    except (TypeError, ValueError):
        return [given]


def _converted(given: Mapping[str, Json], content: Json, kind: Json) -> Sequence[MessageLike]:
    if "parts" in given and content is None and isinstance(given["parts"], list):
        return _from_gemini(given)
    kinds = _kinds(content)
    if kinds & _BLOCKS or (kind == "message" and kinds and kinds <= {"text"}):
        return _from_anthropic(given)
    if isinstance(kind, str) and ("role" not in given or kind == "message"):
        return _from_responses(given)
    return [given]


def is_opaque(message: Message) -> bool:
    """Return whether a parsed message is an item without text that recall could find."""
    kept = message.body.get(AS_GIVEN)
    return isinstance(kept, dict) and bool(kept.get("opaque"))


def check_given(message: Message, field: str) -> None:
    """Check an `as_given` that a caller sent, because the item is what a model gets to read.

    An item of a framework's own form is read by its adapter alone.

    :raises InvalidMessage: unless its item is one that this message is made from
    """
    kept = message.body.get(AS_GIVEN)
    if kept is None:
        return
    is_made = isinstance(kept, dict) and isinstance(kept.get("item", {}), dict)
    form = kept.get("form") if is_made else None
    if not isinstance(form, str):
        is_made = False
    elif form in _READERS:
        is_made = _makes(_READERS[form], kept, message.body)
    if not is_made:
        raise InvalidMessage(f"{field}.{AS_GIVEN}", "must be left out: it is not this message")


def _makes(read: _Reader, kept: Mapping[str, Json], body: Mapping[str, Json]) -> bool:
    """Return whether the kept item is read as this message."""
    item = kept.get("item", {})
    if kept.get("opaque") and (body["role"], body.get("content")) == ("assistant", ""):
        # An adapter keeps what it cannot read as an empty message.
        return _ROLES.get(str(item.get("role"))) != "system" and item.get("role") != "system"
    try:
        [made] = read({"role": body["role"], **item} if kept.get("joins") else item)
    except (TypeError, ValueError, KeyError, AttributeError):
        return False
    # An adapter may say that an agent wrote what its framework hands to the model as a user's.
    is_role = made["role"] == body["role"] or (made["role"], body["role"]) == ("user", "assistant")
    is_opaque = made[AS_GIVEN].get("opaque", False) == kept.get("opaque", False)
    told = ("content", "tool_calls", "tool_call_id")
    return is_role and is_opaque and all(made.get(name) == body.get(name) for name in told)


def _kinds(content: Json) -> frozenset[str]:
    if not isinstance(content, list):
        return frozenset()
    return frozenset(str(each.get("type")) for each in content if isinstance(each, Mapping))


def _kept(form: str, item: Mapping[str, Json], **more: Json) -> dict[str, Json]:
    return {AS_GIVEN: {"form": form, "item": dict(item), **more}}


def _spoken(content: Json) -> str:
    """Text content, or the text parts of a list."""
    if not isinstance(content, list):
        return as_text(content)
    said = [
        each.get("text", each.get("refusal"))
        for each in content
        if isinstance(each, Mapping) and str(each.get("type")) in _SPOKEN
    ]
    return "\n".join(each for each in said if isinstance(each, str))


def _call(call_id: Json, name: Json, arguments: Json) -> dict[str, Json]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def _from_responses(item: Mapping[str, Json]) -> list[dict[str, Json]]:
    return [_responses_turn(item)]


def _responses_turn(item: Mapping[str, Json]) -> dict[str, Json]:
    kind = item.get("type", "message")
    kept = _kept("responses", item)
    if kind == "message":
        role = _ROLES.get(str(item.get("role")), item.get("role"))
        return {"role": role, "content": _spoken(item.get("content")), **kept}
    if kind in _CALLS:
        call = _call(item.get("call_id"), item.get("name"), item.get(_CALLS[kind]))
        return {"role": "assistant", "content": None, "tool_calls": [call], **kept}
    if kind in _RESULTS:
        output = item.get("output")
        said = _spoken(output) if isinstance(output, list) else as_text(output)
        return {"role": "tool", "tool_call_id": item.get("call_id"), "content": said, **kept}
    opaque = _kept("responses", item, opaque=True)
    return {"role": "assistant", "content": "", **opaque}


def _from_anthropic(item: Mapping[str, Json]) -> list[dict[str, Json]]:
    """Return one turn for each tool result, and one for each run of other blocks between them."""
    blocks = [dict(each) if isinstance(each, Mapping) else each for each in item["content"]]
    runs = _runs(blocks, lambda block: _is(block, "tool_result"))
    parts = []
    for number, run in enumerate(runs or [[]]):
        slice_ = {**item, "content": run} if number == 0 else {"content": run}
        kept = _kept("anthropic", slice_, **({"joins": True} if number else {}))
        parts.append(_anthropic_turn(str(item.get("role")), run, kept))
    return parts


def _runs(given: Sequence[Any], is_result: Callable[[Any], bool]) -> list[list[Any]]:
    """Split blocks: each tool result alone, and the blocks between two results together."""
    runs: list[list[Any]] = []
    for alone, group in groupby(given, is_result):
        some = list(group)
        runs += [[each] for each in some] if alone else [some]
    return runs


def _is(block: Json, kind: str) -> bool:
    return isinstance(block, Mapping) and block.get("type") == kind


def _anthropic_turn(role: str, run: Sequence[Any], kept: dict[str, Json]) -> dict[str, Json]:
    if run and _is(run[0], "tool_result"):
        result = run[0]
        body = {
            "role": "tool",
            "tool_call_id": result.get("tool_use_id"),
            "content": _spoken(result.get("content")),
            "is_error": bool(result.get("is_error", False)),
        }
        return {**body, **kept}
    said = _spoken(list(run))
    calls = [_call(b.get("id"), b.get("name"), b.get("input")) for b in run if _is(b, "tool_use")]
    body = {"role": role, "content": said}
    if calls:
        body |= {"content": said or None, "tool_calls": calls}
    return _part(body, kept, has_words=bool(said or calls))


def _from_gemini(item: Mapping[str, Json]) -> list[dict[str, Json]]:
    role = _ROLES.get(str(item.get("role")), item.get("role") or "user")
    runs = _runs(item["parts"], lambda part: bool(_field(part, "function_response")))
    parts = []
    for number, run in enumerate(runs or [[]]):
        slice_ = {**item, "parts": run} if number == 0 else {"parts": run}
        kept = _kept("gemini", slice_, **({"joins": True} if number else {}))
        parts.append(_gemini_turn(role, run, kept))
    return parts


def _field(part: Json, name: str) -> Mapping[str, Json] | None:
    """A call or result of a Gemini part, under its JSON name or the one that the SDK dumps."""
    if not isinstance(part, Mapping):
        return None
    head, _, tail = name.partition("_")
    found = part.get(name) or part.get(head + tail.capitalize())
    return found if isinstance(found, Mapping) else None


def _gemini_turn(role: Json, run: Sequence[Any], kept: dict[str, Json]) -> dict[str, Json]:
    answer = _field(run[0], "function_response") if run else None
    body: dict[str, Json]
    if answer:
        body = {
            "role": "tool",
            "tool_call_id": answer.get("id") or f"gemini:{answer.get('name')}",
            "function_name": answer.get("name"),
            "content": as_text(answer.get("response")),
        }
        return {**body, **kept}
    texts = [p.get("text") for p in run if isinstance(p, Mapping) and not p.get("thought")]
    said = "\n".join(text for text in texts if isinstance(text, str))
    asked = [call for part in run if (call := _field(part, "function_call"))]
    calls = [
        _call(c.get("id") or f"gemini:{c.get('name')}", c.get("name"), c.get("args")) for c in asked
    ]
    body = {"role": role, "content": said}
    if calls:
        body |= {"content": said or None, "tool_calls": calls}
    return _part(body, kept, has_words=bool(said or calls))


def _part(body: dict[str, Json], kept: dict[str, Json], *, has_words: bool) -> dict[str, Json]:
    if not has_words:
        kept[AS_GIVEN]["opaque"] = True
    return {**body, **kept}


def in_form(form: str, bodies: Iterable[Mapping[str, Json]]) -> list[dict[str, Json]]:
    """Return stored messages in one of `FORMS`; messages stored from it are returned unchanged.

    A tool result whose call is not among them is left out, and so is a call without a result.
    """
    paired = list(_paired(list(bodies)))
    names = {r["id"]: r["function"].get("name") for b in paired for r in b.get("tool_calls") or ()}
    made: list[dict[str, Json]] = []
    parts = _JOINED.get(form, "")
    for body in paired:
        kept = body.get(AS_GIVEN)
        kept = kept if isinstance(kept, dict) else {}
        item = kept.get("item") if kept.get("form") == form else None
        if not isinstance(item, dict):
            made += _WRITERS[form](body, names)
        elif not kept.get("joins"):
            made.append({**item, parts: list(item[parts])} if _is_list(item, parts) else dict(item))
        elif made and _is_list(item, parts) and _may_join(made[-1], body, parts):
            made[-1][parts] += item[parts]
        else:
            made += _WRITERS[form](body, names)
    return made


def _is_list(item: Mapping[str, Json], name: str) -> bool:
    return isinstance(item.get(name), list)


def _may_join(last: Mapping[str, Json], body: Mapping[str, Json], parts: str) -> bool:
    """Return whether the message before has the role of this one, and a list of parts."""
    role, own = str(last.get("role", "user")), body["role"]
    return _is_list(last, parts) and _ROLES.get(role, role) == ("user" if own == "tool" else own)


_JOINED = {"anthropic": "content", "gemini": "parts"}


def _paired(bodies: Sequence[Mapping[str, Json]]) -> Iterable[Mapping[str, Json]]:
    answered = {body["tool_call_id"] for body in bodies if body["role"] == "tool"}
    asked: set[str] = set()
    for body in bodies:
        calls = body.get("tool_calls") or ()
        if body["role"] == "tool":
            if body["tool_call_id"] in asked or "function_name" in body:
                yield body
            continue
        asked.update(call["id"] for call in calls)
        open_calls = {call["id"] for call in calls} - answered
        if not open_calls:
            yield body
        elif body.get("content"):
            yield _without_calls(body, open_calls)


def _without_calls(body: Mapping[str, Json], gone: set[str]) -> dict[str, Json]:
    """The message without calls that never got a result, and with a new item."""
    left = [call for call in body["tool_calls"] if call["id"] not in gone]
    kept = {k: v for k, v in body.items() if k not in {AS_GIVEN, "tool_calls"}}
    return {**kept, "tool_calls": left} if left else kept


def _to_responses(body: Mapping[str, Json], _: Mapping[str, Json]) -> list[dict[str, Json]]:
    if body["role"] == "tool":
        said = as_text(body.get("content") or body.get("result"))
        return [{"type": "function_call_output", "call_id": body["tool_call_id"], "output": said}]
    made: list[dict[str, Json]] = []
    if body.get("content"):
        made.append({"role": body["role"], "content": _own(body["content"], _RESPONSES_PARTS)})
    made += [
        {"type": "function_call", "call_id": call["id"], **call["function"]}
        for call in body.get("tool_calls") or ()
    ]
    return made


def _to_anthropic(body: Mapping[str, Json], _: Mapping[str, Json]) -> list[dict[str, Json]]:
    if body["role"] == "tool":
        result: dict[str, Json] = {
            "type": "tool_result",
            "tool_use_id": body["tool_call_id"],
            "content": as_text(body.get("content") or body.get("result")),
        }
        if body.get("is_error"):
            result["is_error"] = True
        return [{"role": "user", "content": [result]}]
    said = _texts(body.get("content"))
    calls = body.get("tool_calls") or ()
    # In this format the system prompt is not a message.
    role = "user" if body["role"] == "system" else body["role"]
    if not calls:
        content = _own(body.get("content"), _ANTHROPIC_PARTS)
        return [{"role": role, "content": content}] if content else []
    blocks: list[dict[str, Json]] = [{"type": "text", "text": said}] if said else []
    for call in calls:
        asked = call["function"]
        given = {"id": call["id"], "name": asked.get("name"), "input": _loaded(asked)}
        blocks.append({"type": "tool_use", **given})
    return [{"role": role, "content": blocks}]


def _to_gemini(body: Mapping[str, Json], names: Mapping[str, Json]) -> list[dict[str, Json]]:
    if body["role"] == "tool":
        name = body.get("function_name") or names.get(body["tool_call_id"])
        said = as_text(body.get("content") or body.get("result"))
        answer = {"id": body["tool_call_id"], "name": name, "response": {"result": said}}
        return [{"role": "user", "parts": [{"functionResponse": answer}]}]
    said = _texts(body.get("content"))
    parts: list[dict[str, Json]] = [{"text": said}] if said else []
    for call in body.get("tool_calls") or ():
        asked = call["function"]
        given = {"id": call["id"], "name": asked.get("name"), "args": _loaded(asked)}
        parts.append({"functionCall": given})
    role = "model" if body["role"] == "assistant" else "user"
    return [{"role": role, "parts": parts}] if parts else []


_RESPONSES_PARTS = frozenset(("input_text", "output_text", "input_image", "input_file"))
_ANTHROPIC_PARTS = frozenset(("text", "image", "document"))


def _own(content: Json, known: frozenset[str]) -> Json:
    """The content unchanged if the format has all its parts, else its text."""
    kinds = _kinds(content)
    return content if kinds and kinds <= known else _texts(content)


def _texts(content: Json) -> str:
    return content if isinstance(content, str) else _spoken(content)


def _loaded(function: Mapping[str, Json]) -> Json:
    """A call's arguments as an object; text that is not JSON stays unchanged."""
    try:
        return json.loads(function.get("arguments") or "{}")
    except (TypeError, ValueError):
        return {"arguments": function.get("arguments")}


_Reader = Callable[[Mapping[str, Json]], list[dict[str, Json]]]
_READERS: dict[str, _Reader] = {
    "responses": _from_responses,
    "anthropic": _from_anthropic,
    "gemini": _from_gemini,
}
_Writer = Callable[[Mapping[str, Json], Mapping[str, Json]], list[dict[str, Json]]]
_WRITERS: dict[str, _Writer] = {
    "responses": _to_responses,
    "anthropic": _to_anthropic,
    "gemini": _to_gemini,
}
