"""Ask the memory service: start `octopus serve --dev` first, in this folder."""

from octopus_memory import EpisodicMemory

with EpisodicMemory.connect("http://127.0.0.1:8765") as memory:
    scope = memory.scope(agent="assistant", user="ana")
    scope.store([("user", "My desk is on the fourth floor."), ("assistant", "Noted.")])
    print(scope.context("Where do I sit?").text)
