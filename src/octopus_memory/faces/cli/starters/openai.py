"""A chat with OpenAI that remembers you: talk, press Ctrl-D, run it again and ask.

Needs OPENAI_API_KEY; OPENAI_BASE_URL names another server with the same API.
"""

from contextlib import suppress

from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from octopus_memory import EpisodicMemory, wrap

MODEL = "gpt-5-mini"

with EpisodicMemory.open() as memory:
    scope = memory.scope(agent="assistant", user="ana")
    for past in scope.recent(3):
        if past.summary:
            print(f"I remember {past.date:%d %B}: {past.summary}")
    with scope.episode() as talk, suppress(EOFError):
        client = wrap(OpenAI(), scope, session_id=talk.session_id)
        messages: list[ChatCompletionMessageParam] = []
        while question := input("you: "):
            messages.append({"role": "user", "content": question})
            made = client.chat.completions.create(model=MODEL, messages=messages)
            answer = made.choices[0].message.content
            messages.append({"role": "assistant", "content": answer})
            print("assistant:", answer)
print("\nRun it again: it remembers.")
