"""A chat with OpenAI that remembers the user. Needs OPENAI_API_KEY, or OPENAI_BASE_URL."""

from uuid import uuid4

from openai import OpenAI

from octopus_memory import EpisodicMemory, wrap

with EpisodicMemory.open() as memory:
    scope = memory.scope(agent="assistant", user="ana")
    client = wrap(OpenAI(), scope, session_id=str(uuid4()))
    while question := input("you: "):
        made = client.chat.completions.create(
            model="gpt-5-mini", messages=[{"role": "user", "content": question}]
        )
        print("assistant:", made.choices[0].message.content)
