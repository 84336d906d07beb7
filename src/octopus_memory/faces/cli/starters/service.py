"""A client of the memory service: start `octopus serve --dev` first, in this folder.

Talk, press Ctrl-D, run it again and ask.
"""

from contextlib import suppress
from typing import Any

from octopus_memory import EpisodicMemory

SYSTEM = "You are a helpful assistant."


def answer(messages: list[dict[str, Any]]) -> str:
    """Ask your model here. Until then, this prints what it would read."""
    for each in messages:
        print(f"    [{each['role']}] {each['content']}")
    return "(your model's answer)"


with EpisodicMemory.connect("http://127.0.0.1:8765") as memory:
    scope = memory.scope(agent="assistant", user="ana")
    for past in scope.recent(3):
        if past.summary:
            print(f"I remember {past.date:%d %B}: {past.summary}")
    with scope.episode() as talk, suppress(EOFError):
        history: list[tuple[str, str]] = []
        while question := input("you: "):
            context = talk.context(question, history=history, system=SYSTEM)
            said = answer(context.messages)
            print("assistant:", said)
            exchange = [("user", question), ("assistant", said)]
            talk.add(exchange)
            history += exchange
print("\nRun it again: it remembers.")
