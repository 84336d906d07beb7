"""An agent of LangChain that remembers the user. Needs OPENAI_API_KEY, or another model."""

from uuid import uuid4

from langchain.agents import create_agent
from langchain.messages import AnyMessage, HumanMessage

from octopus_memory import EpisodicMemory
from octopus_memory.integrations.langchain import OctopusMiddleware

with EpisodicMemory.open() as memory:
    scope = memory.scope(agent="assistant", user="ana")
    middleware = OctopusMiddleware(scope, session_id=str(uuid4()))
    agent = create_agent("openai:gpt-5-mini", middleware=[middleware])
    messages: list[AnyMessage] = []
    while question := input("you: "):
        state = agent.invoke({"messages": [*messages, HumanMessage(question)]})
        messages = state["messages"]
        print("assistant:", messages[-1].text)
