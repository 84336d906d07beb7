"""An agent on any OpenAI-compatible endpoint, with memory in front of it.

Set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own, and run it twice: the second time
it knows you. Without either it talks to a small server that it starts itself.

    pip install 'octopus-memory[openai]'
"""

import os
from contextlib import ExitStack

from openai import OpenAI

from octopus_memory import EpisodicMemory
from octopus_memory.testing import FakeOpenAIServer


def main() -> None:
    with ExitStack() as stack:
        if {"OPENAI_API_KEY", "OPENAI_BASE_URL"} & os.environ.keys():
            client = stack.enter_context(OpenAI())
        else:
            server = stack.enter_context(FakeOpenAIServer())
            client = stack.enter_context(OpenAI(base_url=server.base_url, api_key="none"))
        memory = stack.enter_context(EpisodicMemory.open("sqlite:///agent.db"))
        scope = memory.scope(agent="assistant", user="me")
        history: list = []
        with scope.episode() as ep:
            for line in ("I am allergic to peanuts.", "What should I cook tonight?"):
                context = ep.context(line, history=history, system="You are a kind cook.")
                answer = client.chat.completions.create(
                    model=os.environ.get("OCTOPUS_CHAT_MODEL", "gpt-4o-mini"),
                    messages=context.messages,
                )
                reply = answer.choices[0].message.content or ""
                ep.add([("user", line), ("assistant", reply)])
                history += [
                    {"role": "user", "content": line},
                    {"role": "assistant", "content": reply},
                ]
                print(f"you: {line}\nagent: {reply}\n")
        memory.flush()
        for snippet in scope.recall("food the user cannot eat", limit=1):
            print("remembered:", snippet.summary)


if __name__ == "__main__":
    main()
