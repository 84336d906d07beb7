"""Messages that a provider takes and the memory does not, in a form that can be stored as JSON."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

from ..domain.message import Json, as_text

_ROLES = {"developer": "system", "function": "tool", "model": "assistant"}
_KNOWN = frozenset(("user", "assistant", "system", "tool"))
_LONGEST = 200_000
"""Characters that are kept of a message whose whole is too large."""


def repaired(message: Json) -> Json:
    """Return a message with what the memory requires and a provider does not."""
    if not isinstance(message, dict) or "role" not in message:
        return message
    body: dict[str, Any] = dict(message)
    call = body.pop("function_call", None) if "tool_calls" not in body else None
    if isinstance(call, dict):
        # The form of OpenAI's before tools: a call has a name and no id.
        asked = {"id": f"function:{call.get('name')}", "type": "function", "function": call}
        body["tool_calls"] = [asked]
    if body["role"] == "function":
        body |= {"role": "tool", "tool_call_id": f"function:{body.get('name')}"}
    if body["role"] == "tool" and "toolCallId" not in body and not body.get("tool_call_id"):
        body["tool_call_id"] = "call"
    if body.get("tool_calls") is not None and not body["tool_calls"]:
        del body["tool_calls"]
    if body.get("tool_calls"):
        body["tool_calls"] = [_with_id(each) for each in body["tool_calls"]]
    has_words = body.get("content") is not None or body.get("refusal") or "result" in body
    if not has_words and not body.get("tool_calls") and not _has_parts(body):
        audio = body.get("audio")
        body["content"] = as_text(audio.get("transcript")) if isinstance(audio, dict) else ""
    return body


def _with_id(call: Json) -> Json:
    return {**call, "id": "call"} if isinstance(call, dict) and not call.get("id") else call


def _has_parts(body: dict[str, Any]) -> bool:
    return isinstance(body.get("parts"), list) or isinstance(body.get("type"), str)


def reduced(message: Json) -> dict[str, Any]:
    """Return a message with its words alone, for one that the memory refuses as it is."""
    body = message if isinstance(message, dict) else {}
    role = _ROLES.get(str(body.get("role")), str(body.get("role")))
    small: dict[str, Any] = {
        "role": role if role in _KNOWN else "user",
        "content": _words(body.get("content"))[:_LONGEST],
    }
    if role == "tool":
        small["tool_call_id"] = str(body.get("tool_call_id") or "call")
    for name in ("name", "tool_calls", "function_name"):
        if isinstance(body.get(name), str | list):
            small[name] = body[name]
    if role == "assistant" and small.get("tool_calls") and not small["content"]:
        small["content"] = None
    return small


def _words(content: Json) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    said = [each.get("text") for each in content if isinstance(each, dict)]
    return "\n".join(each for each in said if isinstance(each, str))


def plain(value: Any) -> Any:
    """A client's object as JSON, whether it is a model of pydantic's or a dict already."""
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json", exclude_none=True, warnings=False)
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def digest(value: Json) -> str:
    """Return a short hash of a JSON value."""
    text = json.dumps(value, sort_keys=True)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def loaded(text: str | bytes) -> Json:
    """Return the value of a JSON text; None for anything else."""
    try:
        return json.loads(text)
    except ValueError:
        return None
