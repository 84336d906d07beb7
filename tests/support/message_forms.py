"""A conversation with a tool call, in the forms of several providers."""

from __future__ import annotations

from typing import Any

CHAT: list[dict[str, Any]] = [
    {"role": "user", "content": "How warm is it in Oslo?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city": "Oslo"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "7 degrees"},
    {"role": "assistant", "content": "Oslo has 7 degrees."},
]
ANTHROPIC: list[dict[str, Any]] = [
    {"role": "user", "content": "How warm is it in Oslo and Bergen?"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "zirconium plan", "signature": "c2ln"},
            {"type": "text", "text": "I will look."},
            {"type": "tool_use", "id": "tu1", "name": "weather", "input": {"city": "Oslo"}},
            {"type": "tool_use", "id": "tu2", "name": "weather", "input": {"city": "Bergen"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "tu1", "content": "7 degrees"},
            {
                "type": "tool_result",
                "tool_use_id": "tu2",
                "content": [{"type": "text", "text": "9 degrees"}],
                "is_error": False,
            },
            {"type": "text", "text": "Tell me in one line."},
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "Oslo 7, Bergen 9 degrees."}]},
]
RESPONSES: list[dict[str, Any]] = [
    {"role": "user", "content": "How warm is it in Oslo?"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "zirconium"},
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "weather",
        "arguments": '{"city": "Oslo"}',
        "status": "completed",
    },
    {"type": "function_call_output", "call_id": "c1", "output": "7 degrees"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Oslo has 7 degrees.", "annotations": []}],
    },
]
GEMINI: list[dict[str, Any]] = [
    {"role": "user", "parts": [{"text": "How warm is it in Oslo?"}]},
    {
        "role": "model",
        "parts": [
            {"text": "zirconium plan", "thought": True},
            {"functionCall": {"name": "weather", "args": {"city": "Oslo"}}},
        ],
    },
    {
        "role": "user",
        "parts": [{"functionResponse": {"name": "weather", "response": {"degrees": 7}}}],
    },
    {"role": "model", "parts": [{"text": "Oslo has 7 degrees."}]},
]
FORMS = {"anthropic": ANTHROPIC, "responses": RESPONSES, "gemini": GEMINI}
