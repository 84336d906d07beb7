"""An agent of the OpenAI Agents SDK that remembers the user. Needs OPENAI_API_KEY."""

from uuid import uuid4

from agents import Agent, Runner

from octopus_memory import EpisodicMemory
from octopus_memory.integrations.openai_agents import OctopusSession

with EpisodicMemory.open() as memory:
    session = OctopusSession(str(uuid4()), memory.scope(agent="assistant", user="ana"))
    agent = Agent(name="assistant", model="gpt-5-mini", tools=session.tools())
    while question := input("you: "):
        made = Runner.run_sync(agent, question, session=session, run_config=session.run_config())
        print("assistant:", made.final_output)
