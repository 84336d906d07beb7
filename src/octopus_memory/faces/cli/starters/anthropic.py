"""A chat with Claude that remembers the user. Needs ANTHROPIC_API_KEY."""

from uuid import uuid4

from anthropic import Anthropic

from octopus_memory import EpisodicMemory, wrap

with EpisodicMemory.open() as memory:
    scope = memory.scope(agent="assistant", user="ana")
    client = wrap(Anthropic(), scope, session_id=str(uuid4()))
    while question := input("you: "):
        made = client.messages.create(
            model="claude-sonnet-4-5",
            max_tokens=1024,
            messages=[{"role": "user", "content": question}],
        )
        print("assistant:", made.content[0].text)
