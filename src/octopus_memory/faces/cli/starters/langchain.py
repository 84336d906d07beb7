"""An agent of LangChain that remembers you: talk, press Ctrl-D, run it again and ask.

Needs OPENAI_API_KEY, or another model.
"""

from contextlib import suppress

from langchain.agents import create_agent
from langchain.messages import AnyMessage, HumanMessage

from octopus_memory import EpisodicMemory
from octopus_memory.integrations.langchain import OctopusMiddleware

MODEL = "openai:gpt-5-mini"

with EpisodicMemory.open() as memory:
    scope = memory.scope(agent="assistant", user="ana")
    for past in scope.recent(3):
        if past.summary:
            print(f"I remember {past.date:%d %B}: {past.summary}")
    with scope.episode() as talk, suppress(EOFError):
        middleware = OctopusMiddleware(scope, session_id=talk.session_id)
        agent = create_agent(MODEL, middleware=[middleware])
        messages: list[AnyMessage] = []
        while question := input("you: "):
            state = agent.invoke({"messages": [*messages, HumanMessage(question)]})
            messages = state["messages"]
            print("assistant:", messages[-1].text)
print("\nRun it again: it remembers.")
