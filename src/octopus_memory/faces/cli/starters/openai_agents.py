"""An agent of the OpenAI Agents SDK that remembers you: talk, press Ctrl-D, run it again and ask.

Needs OPENAI_API_KEY.
"""

from contextlib import suppress

from agents import Agent, Runner

from octopus_memory import EpisodicMemory
from octopus_memory.integrations.openai_agents import OctopusSession

MODEL = "gpt-5-mini"

with EpisodicMemory.open() as memory:
    scope = memory.scope(agent="assistant", user="ana")
    for past in scope.recent(3):
        if past.summary:
            print(f"I remember {past.date:%d %B}: {past.summary}")
    with scope.episode() as talk, suppress(EOFError):
        session = OctopusSession(talk.session_id, scope)
        agent = Agent(name="assistant", model=MODEL, tools=session.tools())
        config = session.run_config()
        while question := input("you: "):
            made = Runner.run_sync(agent, question, session=session, run_config=config)
            print("assistant:", made.final_output)
print("\nRun it again: it remembers.")
