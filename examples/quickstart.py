"""A conversation stored, closed, and recalled in a later one."""

from octopus_memory import EpisodicMemory

with EpisodicMemory.open("sqlite:///quickstart.db") as memory:
    scope = memory.scope(tenant="acme", agent="hr", user="user-17")

    with scope.episode(session_id="monday") as ep:
        ep.add("user", "How many leave days do I have left? Please be formal with me.")
        ep.add("assistant", "You have 12 days remaining.")

    memory.flush()
    for snippet in scope.recall("annual leave", limit=3):
        print(snippet.date.date(), f"{snippet.relevance:.2f}", snippet.summary, snippet.key_facts)
        print(snippet.explain())

    context = scope.context("Can I take five days in June?", system="You are Aria.")
    print(context.text)
