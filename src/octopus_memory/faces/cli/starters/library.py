"""An agent that remembers. Run it twice: the second time it knows what was said the first time."""

from uuid import uuid4

from octopus_memory import EpisodicMemory


def answer(messages: list[dict[str, str]]) -> str:
    """Ask your model here. This stands in for it, and says how much it was given."""
    return f"(your model's answer to {len(messages)} messages)"


with EpisodicMemory.open() as memory:
    scope = memory.scope(agent="assistant", user="ana")
    question = "I am allergic to peanuts. What can I cook tonight?"
    context = scope.context(question, system="You are a helpful assistant.")
    print(context.text or "Nothing is remembered yet.")
    with scope.episode(session_id=str(uuid4())) as episode:
        episode.add("user", question)
        episode.add("assistant", answer(context.messages))
