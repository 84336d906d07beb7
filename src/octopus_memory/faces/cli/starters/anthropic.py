"""A chat with Claude that remembers you: talk, press Ctrl-D, run it again and ask.

Needs ANTHROPIC_API_KEY.
"""

from contextlib import suppress

from anthropic import Anthropic
from anthropic.types import MessageParam

from octopus_memory import EpisodicMemory, wrap

MODEL = "claude-sonnet-4-5"

with EpisodicMemory.open() as memory:
    scope = memory.scope(agent="assistant", user="ana")
    for past in scope.recent(3):
        if past.summary:
            print(f"I remember {past.date:%d %B}: {past.summary}")
    with scope.episode() as talk, suppress(EOFError):
        client = wrap(Anthropic(), scope, session_id=talk.session_id)
        messages: list[MessageParam] = []
        while question := input("you: "):
            messages.append({"role": "user", "content": question})
            made = client.messages.create(model=MODEL, max_tokens=1024, messages=messages)
            messages.append({"role": "assistant", "content": made.content})
            print("assistant:", made.content[0].text)
print("\nRun it again: it remembers.")
