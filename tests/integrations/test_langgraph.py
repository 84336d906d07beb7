"""LangGraph's store and LangMem, with LangChain's fake model."""

from __future__ import annotations

import asyncio
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import AsyncEpisodicMemory, EpisodicMemory, InvalidInput
from tests.support import byte_scan, rest_server
from tests.support.integrations import FACT, QUESTION, SECRET, Erased, Scopes

pytest.importorskip("langmem")

from langchain.agents import create_agent
from langchain.agents.middleware import dynamic_prompt
from langchain.messages import HumanMessage
from langgraph.store.base import GetOp, Item, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from langmem import create_manage_memory_tool, create_search_memory_tool

from octopus_memory.integrations.langchain import OctopusMiddleware
from octopus_memory.integrations.langgraph import OctopusStore
from tests.support.langchain_model import Model, calls, model

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

HERE = ("memories", "{langgraph_user_id}")
ANA = ("memories", "ana")


def by_user(scopes: Scopes) -> OctopusStore:
    return OctopusStore(lambda names: scopes(names[1]), backing=InMemoryStore())


def found(store: OctopusStore, query: str, prefix: tuple[str, ...] = ANA, **more: Any) -> list[str]:
    return [item.key for item in store.search(prefix, query=query, **more)]


def stored(scope: Any) -> list[str]:
    sessions = scope.sessions(1, 200).items
    return [turn.text for each in sessions for turn in scope.session(each.id).turns]


@dynamic_prompt
def remembering(request: Any) -> str:
    user = request.runtime.context["user"]
    said = next(m.text for m in reversed(request.messages) if m.type == "human")
    items = request.runtime.store.search(("memories", user), query=said)
    return "Known: " + "\n".join(str(item.value) for item in items)


def run(store: OctopusStore, user: str, mode: str, said: str, *answers: Any) -> Model:
    """Run an agent with LangMem's tools, once."""
    made = model(*answers)
    tools = [create_manage_memory_tool(namespace=HERE), create_search_memory_tool(namespace=HERE)]
    agent = create_agent(
        made, tools, store=store, middleware=[remembering] if mode == "sync" else []
    )
    given = {"messages": [HumanMessage(said)]}
    named: Any = {
        "config": {"configurable": {"langgraph_user_id": user}},
        "context": {"user": user},
    }
    if mode == "sync":
        agent.invoke(given, **named)
    else:
        asyncio.run(agent.ainvoke(given, **named))
    return made


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_the_second_session_is_told_what_the_first_one_noted(
    scopes: Scopes, kept: EpisodicMemory, mode: str
):
    store = by_user(scopes)
    run(store, "ana", mode, FACT, calls("manage_memory", content=FACT, action="create"), "Noted.")
    kept.flush()
    [item] = store.search(ANA)
    assert item.value == {"content": FACT}
    asked = run(store, "ana", mode, QUESTION, calls("search_memory", query=QUESTION), "X4.")
    assert SECRET in asked.seen[1][-1].text
    if mode == "sync":
        assert SECRET in asked.seen[0][0].text
    # The item alone is in the memory: neither the prompt nor what the tools gave.
    assert stored(scopes()) == [f"content: {FACT}"]
    stranger = run(store, "ben", mode, QUESTION, calls("search_memory", query=QUESTION), "No.")
    assert SECRET not in str(stranger.seen)


def test_the_block_shows_items_of_the_same_scope(scopes: Scopes, kept: EpisodicMemory):
    by_user(scopes).put(ANA, "passport", {"fact": FACT})
    kept.flush()
    made = model("X4.")
    create_agent(made, [], middleware=[OctopusMiddleware(scopes(), session_id="two")]).invoke(
        {"messages": [HumanMessage(QUESTION)]}
    )
    assert SECRET in made.seen[0][0].text


def test_items_come_back_exactly(scopes: Scopes, kept: EpisodicMemory):
    store = by_user(scopes)
    value = {"a": [1, 2.5, None, {"b": "Ünïcode"}], "text": "The harbour.", "empty": {}}
    store.put(ANA, "k", value)
    kept.flush()
    item = store.get(ANA, "k")
    assert item is not None
    assert (item.value, item.namespace, item.key) == (value, ANA, "k")
    [hit] = store.search(ANA, query="harbour")
    assert (hit.value, hit.namespace, hit.key) == (value, ANA, "k")
    assert (hit.created_at, hit.updated_at) == (item.created_at, item.updated_at)
    assert hit.score is not None
    assert 0 < hit.score <= 1
    assert store.list_namespaces() == [ANA]
    assert store.get(ANA, "none") is None


def test_a_search_is_limited_and_filtered(scopes: Scopes, kept: EpisodicMemory):
    store = by_user(scopes)
    for n in range(30):
        place = (*ANA, "even" if n % 2 == 0 else "odd")
        store.put(place, f"k{n}", {"text": f"The harbour, number {n}.", "n": n})
    store.put(("other", "ana"), "k", {"text": "The harbour of others."})
    kept.flush()
    assert len(found(store, "harbour")) == 10
    every = found(store, "harbour", limit=500)
    assert sorted(every) == sorted(f"k{n}" for n in range(30))
    pages = [found(store, "harbour", limit=7, offset=at) for at in range(0, 35, 7)]
    assert [key for page in pages for key in page] == every
    odd = found(store, "harbour", (*ANA, "odd"), limit=100)
    assert sorted(odd) == sorted(f"k{n}" for n in range(1, 30, 2))
    assert found(store, "harbour", filter={"n": 17}) == ["k17"]
    above = found(store, "harbour", filter={"n": {"$gte": 28}})
    assert sorted(above) == ["k28", "k29"]
    assert found(store, "number 21", limit=1) == ["k21"]
    assert found(store, "harbour", ("memories", "ben")) == []


def test_an_item_is_searched_by_its_index(scopes: Scopes, kept: EpisodicMemory):
    store = OctopusStore(scopes(), backing=InMemoryStore(), fields=["text"])
    store.put(ANA, "default", {"text": "The harbour.", "secret": "A lighthouse."})
    store.put(ANA, "named", {"parts": [{"t": "A ferry."}, {"t": "A crane."}]}, index=["parts[*].t"])
    store.put(ANA, "none", {"text": "The harbour."}, index=False)
    store.put(ANA, "empty", {"text": " "})
    kept.flush()
    assert found(store, "harbour")[0] == "default"
    assert found(store, "ferry")[0] == found(store, "crane")[0] == "named"
    assert {*found(store, "harbour")} == {"default", "named"}
    assert sorted(stored(scopes())) == ["A crane.", "A ferry.", "The harbour."]
    assert len(store.search(ANA)) == 4


def test_a_changed_or_deleted_item_is_found_as_it_is(scopes: Scopes, kept: EpisodicMemory):
    store = by_user(scopes)
    for _ in range(3):
        store.put(ANA, "k", {"text": "The harbour."})
    assert stored(scopes()) == ["text: The harbour."]
    store.put(ANA, "k", {"text": "A lighthouse."})
    kept.flush()
    assert stored(scopes()) == ["text: A lighthouse."]
    [item] = store.search(ANA, query="harbour")
    assert item.value == {"text": "A lighthouse."}
    store.put(ANA, "k", {"text": "A lighthouse."}, index=False)
    assert stored(scopes()) == []
    store.put(ANA, "k", {"text": "A lighthouse."})
    store.delete(ANA, "k")
    assert store.get(ANA, "k") is None
    assert found(store, "lighthouse") == []
    assert scopes().sessions().items == ()


def test_a_batch_reads_before_it_writes(scopes: Scopes, kept: EpisodicMemory):
    store = by_user(scopes)
    store.put(ANA, "k", {"text": "The harbour."})
    kept.flush()
    got, nothing, searched, listed = store.batch(
        [
            GetOp(ANA, "k"),
            PutOp(ANA, "k", None),
            SearchOp(ANA, query="harbour"),
            SearchOp(ANA),
        ]
    )
    assert got.value == {"text": "The harbour."}
    assert nothing is None
    assert [item.key for item in searched] == ["k"]
    assert [item.key for item in listed] == ["k"]
    assert store.search(ANA) == store.search(ANA, query="harbour") == []


def test_a_name_that_is_too_long_is_refused_before_anything_is_stored(scopes: Scopes):
    store = by_user(scopes)
    with pytest.raises(InvalidInput, match="session_id"):
        store.batch([PutOp(ANA, "k", {"x": 1}), PutOp(ANA, "k" * 300, {"x": 1})])
    assert store.search(ANA) == []


def test_a_cancelled_put_and_many_writers_lose_nothing(scopes: Scopes, kept: EpisodicMemory):
    store = by_user(scopes)

    async def cancelled() -> None:
        tasks = [
            asyncio.create_task(store.aput(ANA, f"c{n}", {"text": f"The harbour {n}."}))
            for n in range(10)
        ]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*store._unbroken._running)

    asyncio.run(cancelled())

    def write(number: int) -> None:
        for n in range(5):
            store.put(ANA, f"w{number}-{n}", {"text": f"The harbour {number} {n}."})
            store.put(ANA, "same", {"text": f"The harbour of writer {number} {n}."})

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    kept.flush()
    items = store.search(ANA, limit=100)
    assert len(items) == 10 + 15 + 1
    assert sorted(found(store, "harbour", limit=100)) == sorted(item.key for item in items)
    assert sorted(stored(scopes())) == sorted(f"text: {item.value['text']}" for item in items)


def test_another_writer_between_is_seen(kept: EpisodicMemory):
    """A put whose item is replaced before its text is stored leaves the newer text."""
    scope = kept.scope(user="ana")

    class Backing(InMemoryStore):
        def batch(self, ops: Any) -> Any:
            done = super().batch(ops)
            if any(isinstance(op, GetOp) for op in ops) and not others:
                others.append("came")
                OctopusStore(scope, backing=self).put(ANA, "k", {"text": "newer"})
            return done

    others: list[str] = []
    OctopusStore(scope, backing=Backing()).put(ANA, "k", {"text": "older"})
    assert others
    assert stored(scope) == ["text: newer"]


class _Unpickling(InMemoryStore):
    """Makes each item anew when it is read, as a store outside of the process does."""

    def batch(self, ops: Any) -> list[Any]:
        return [
            pickle.loads(pickle.dumps(found)) if isinstance(found, Item) else found
            for found in super().batch(ops)
        ]


def test_a_value_that_is_not_equal_to_itself_is_stored(kept: EpisodicMemory):
    store = OctopusStore(kept.scope(user="ana"), backing=_Unpickling())
    store.put(("notes",), "one", {"text": "The score of the tea is missing.", "score": math.nan})
    assert [item.key for item in store.search(("notes",), query="tea")] == ["one"]


def test_reindex_makes_both_stores_agree(scopes: Scopes, kept: EpisodicMemory):
    backing = InMemoryStore()
    for n in range(120):
        backing.put(ANA, f"k{n}", {"text": f"The harbour {n}.", "more": "A crane."})
    backing.put(("other",), "k", {"text": "The harbour."})
    store = OctopusStore(scopes(), backing=backing)
    store.put(ANA, "gone", {"text": "A ferry."})
    store.put(ANA, "own", {"text": "A ferry.", "more": "A crane."}, index=["more"])
    scopes().add("talk", ("user", "A ferry, please."))
    backing.delete(ANA, "gone")
    kept.flush()
    assert found(store, "ferry") == ["own"]
    store.reindex(ANA)
    said = stored(scopes())
    assert len(said) == 122
    assert "text: A ferry." not in said
    assert {"A crane.", "A ferry, please."} <= {*said}
    asyncio.run(store.areindex())
    assert len(stored(scopes())) == 123


def test_an_asynchronous_memory_serves(tmp_path: Path):
    async def story() -> None:
        url = f"sqlite:///{tmp_path / 'memory.db'}"
        async with await AsyncEpisodicMemory.open(url, embedder="hashing") as memory:
            store = OctopusStore(memory.scope(user="ana"), backing=InMemoryStore())
            await store.aput(ANA, "k", {"text": FACT})
            await memory.flush()
            [item] = await store.asearch(ANA, query=QUESTION)
            assert item.value == {"text": FACT}
            await store.adelete(ANA, "k")
            assert await store.asearch(ANA, query=QUESTION) == []

    asyncio.run(story())


def test_an_agents_key_is_enough(kept: EpisodicMemory):
    with (
        rest_server.serving(kept) as url,
        EpisodicMemory.connect(url, api_key=rest_server.token(kept, "agent")) as remote,
    ):
        store = OctopusStore(remote.scope(user="ana"), backing=InMemoryStore())
        store.put(ANA, "k", {"text": "The harbour."})
        store.put(ANA, "k", {"text": "A lighthouse."})
        kept.flush()
        assert found(store, "lighthouse") == ["k"]
        store.delete(ANA, "k")
        store.reindex()
        assert found(store, "lighthouse") == []


def test_redacted_text_is_found(kept: EpisodicMemory):
    kept.configure("hr", {"privacy": {"pii": "redact"}})
    store = OctopusStore(kept.scope(agent="hr", user="ana"), backing=InMemoryStore())
    place = ("memories", "ana@example_com", "+44 20 7946 0958")
    for _ in range(2):
        store.put(place, "k", {"text": "Write to ana@example.com about the harbour."})
    kept.flush()
    [item] = store.search(place, query="harbour")
    assert "ana@example.com" in item.value["text"]
    [text] = stored(kept.scope(agent="hr", user="ana"))
    assert "ana@example.com" not in text


@pytest.mark.parametrize("forget", ["erase", "delete"])
def test_an_erased_user_and_a_deleted_item_leave_no_trace(
    kept: EpisodicMemory, tmp_path: Path, erased: Erased, forget: str
):
    scope = kept.scope(user="ana")
    store = OctopusStore(scope, backing=InMemoryStore())
    store.put(ANA, "zanzibarquark", {"text": "Remember zanzibarquark."})
    if forget == "erase":
        erased(scope)
        assert found(store, "zanzibarquark") == []
        return
    store.put(ANA, "k", {"text": "Remember zanzibarquark."})
    store.delete(ANA, "k")
    store.delete(ANA, "zanzibarquark")
    kept.compact()
    wanted = {"word": [b"Remember zanzibarquark."]}
    assert byte_scan.search(tmp_path / "db", wanted) == []
