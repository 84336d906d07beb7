"""The part that all adapters share goes on without its memory."""

from __future__ import annotations

import asyncio

import pytest

from octopus_memory import EpisodicMemory, MemoryClosed
from octopus_memory.integrations import outbox
from octopus_memory.integrations.core import Conversation
from octopus_memory.integrations.tools import MemoryTools
from tests.support.integrations import texts

HI = [{"role": "user", "content": "Hi."}]


def test_a_conversation_goes_on_without_its_memory(
    kept: EpisodicMemory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(outbox, "OUTBOX", outbox.Outbox())
    talk = Conversation(kept.scope(user="ana"), "s")
    kept.close()
    assert talk.block("Hi.") == ""
    talk.add(HI)
    talk.add_new(HI)

    async def story() -> None:
        assert await talk.ablock("Hi.") == ""
        await talk.aadd(HI)
        await talk.aadd_new(HI)
        await talk.aadd_now(HI)
        assert "cannot be searched" in await MemoryTools(talk).arecall("Hi.")

    asyncio.run(story())
    assert outbox.counts() == (0, 5)


def test_who_wants_errors_gets_them(kept: EpisodicMemory):
    talk = Conversation(kept.scope(user="ana"), "s", on_error="raise")
    talk.add_new(HI)
    assert texts(kept.scope(user="ana"), "s") == ["Hi."]
    kept.close()
    for call in (talk.add, talk.add_new):
        with pytest.raises(MemoryClosed):
            call(HI)
    with pytest.raises(MemoryClosed):
        talk.block("Hi.")

    async def story() -> None:
        with pytest.raises(MemoryClosed):
            await talk.aadd(HI)
        with pytest.raises(MemoryClosed):
            await talk.ablock("Hi.")

    asyncio.run(story())
