"""A graph of LangGraph that remembers you: talk, press Ctrl-D, run it again and ask.

Needs OPENAI_API_KEY, or another model. The checkpointer has this conversation, Octopus the
earlier ones.
"""

from contextlib import suppress

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from octopus_memory import EpisodicMemory

MODEL = "gpt-5-mini"
SYSTEM = "You are a helpful assistant."

with EpisodicMemory.open() as memory:
    scope = memory.scope(agent="assistant", user="ana")
    for past in scope.recent(3):
        if past.summary:
            print(f"I remember {past.date:%d %B}: {past.summary}")
    with scope.episode() as talk, suppress(EOFError):
        model = ChatOpenAI(model=MODEL)

        def chat(state: MessagesState) -> dict[str, list[BaseMessage]]:
            question = state["messages"][-1].text
            system = SystemMessage(f"{SYSTEM}\n\n{talk.context(question).text}")
            talk.add("user", question)
            answer = model.invoke([system, *state["messages"]])
            talk.add("assistant", answer.text)
            return {"messages": [answer]}

        graph = StateGraph(MessagesState).add_node(chat).add_edge(START, "chat")
        app = graph.compile(checkpointer=InMemorySaver())
        thread = {"configurable": {"thread_id": talk.session_id}}
        while question := input("you: "):
            state = app.invoke({"messages": [("user", question)]}, thread)
            print("assistant:", state["messages"][-1].text)
print("\nRun it again: it remembers.")
