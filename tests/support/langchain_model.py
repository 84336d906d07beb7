"""LangChain's fake model for the tests of LangChain and LangGraph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain.messages import AIMessage
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel


class Model(GenericFakeChatModel):
    """LangChain's fake model, which keeps what it was asked."""

    seen: list[Any] = []  # noqa: RUF012 - pydantic copies it

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        return self

    def _generate(self, messages: list[Any], *args: Any, **named: Any) -> Any:
        self.seen.append(messages)
        return super()._generate(messages, *args, **named)


def model(*answers: AIMessage | str) -> Model:
    said = [AIMessage(each) if isinstance(each, str) else each for each in answers]
    return Model(messages=iter(said), seen=[])


def calls(name: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": "c1"}])
