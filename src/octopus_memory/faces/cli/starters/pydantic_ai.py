"""An agent of PydanticAI that remembers you: talk, press Ctrl-D, run it again and ask.

Needs OPENAI_API_KEY, or another model.
"""

from contextlib import suppress

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage

from octopus_memory import EpisodicMemory
from octopus_memory.integrations.pydantic_ai import OctopusMemory

MODEL = "openai:gpt-5-mini"

with EpisodicMemory.open() as memory:
    scope = memory.scope(agent="assistant", user="ana")
    for past in scope.recent(3):
        if past.summary:
            print(f"I remember {past.date:%d %B}: {past.summary}")
    with scope.episode() as talk, suppress(EOFError):
        agent = Agent(MODEL, capabilities=[OctopusMemory(scope, session_id=talk.session_id)])
        messages: list[ModelMessage] = []
        while question := input("you: "):
            made = agent.run_sync(question, message_history=messages)
            messages = made.all_messages()
            print("assistant:", made.output)
print("\nRun it again: it remembers.")
