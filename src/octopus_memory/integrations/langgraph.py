"""LangGraph: a `BaseStore` whose `search(query=…)` is Octopus's; LangMem can use it.

store = OctopusStore(memory.scope(user="ana"), backing=InMemoryStore())
agent = create_agent(model, tools, store=store)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from ..domain.episode import SUMMARY_LIMIT
from ..domain.errors import AccessDenied, MissingExtra
from ..domain.message import Json, Message
from ..flow import Steps, arun, ask, run
from .core import AnyScope, Conversation, Unbroken

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
    )
    from langgraph.store.memory import InMemoryStore
except ModuleNotFoundError as error:
    raise MissingExtra("langgraph", __name__) from error

_MORE = 4
"""Hits read for each item wanted, because an item may have several or be filtered out."""
_MOST = 1_000
"""Hits that a service gives at once, and turns that an item may have."""
_PAGE = 100


class OctopusStore(BaseStore):
    """Keeps items in a backing store, and their text in Octopus, which searches it.

    `scope` is given, or found from a namespace: `lambda names: memory.scope(user=names[1])`.
    `fields` are the paths of a value that are searched unless a `put` names others as `index`.
    """

    def __init__(
        self,
        scope: AnyScope | Callable[[Namespace], AnyScope],
        *,
        backing: BaseStore,
        fields: Sequence[str] = ("$",),
    ) -> None:
        self._scope, self._backing, self._fields = scope, backing, tuple(fields)
        self.supports_ttl, self.ttl_config = backing.supports_ttl, backing.ttl_config
        self._unbroken = Unbroken()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations; reads see the items as they were before the puts."""
        return run(self._batch(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As `batch`. It goes on when the caller is cancelled, so that both stores agree."""
        return await self._unbroken.finish(arun(self._batch(list(ops))))

    def reindex(self, namespace_prefix: Namespace = ()) -> None:
        """Make Octopus agree with a backing store that was filled, or expired items, by itself."""
        run(self._reindex(namespace_prefix))

    async def areindex(self, namespace_prefix: Namespace = ()) -> None:
        """As `reindex`."""
        await self._unbroken.finish(arun(self._reindex(namespace_prefix)))

    def _batch(self, ops: Sequence[Op]) -> Steps[list[Result]]:
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        for place in puts:
            self._talk(place)  # Refuses a name that is too long before anything is stored.
        found: dict[int, Result] = {}
        for number, op in enumerate(ops):
            if isinstance(op, SearchOp) and op.query:
                found[number] = yield from self._search(op)
        # Octopus has the index, so the backing store needs none.
        rest = [op._replace(index=False) if isinstance(op, PutOp) else op for op in ops]
        asked = [op for number, op in enumerate(rest) if number not in found]
        answers = iter((yield from self._ask(asked)))
        results = [found[i] if i in found else next(answers) for i in range(len(ops))]
        for place, op in puts.items():
            yield from self._settle(place, op.index)
        return results

    def _search(self, op: SearchOp) -> Steps[list[SearchItem]]:
        prefix, wanted = op.namespace_prefix, op.offset + op.limit
        talk, limit = self._talk((prefix, "")), min(max(1, wanted) * _MORE, _MOST)
        name = f"{OURS}{len(prefix)}"
        filters = {"metadata": {name: prefixes(prefix)[name]}}
        while True:
            hits = yield from ask(talk.sync, "recall_turns", op.query, limit=limit, **filters)
            best: dict[Place, Any] = {}
            for hit in hits:
                best.setdefault(place_of(hit.session_id), hit)
            found = yield from self._items(best)
            items = {
                place: item
                for place, item in found.items()
                if has(best[place].message, {"value": mark(item.value)})
            }
            matching = _matching(items, op.filter)
            kept = [place for place in best if place in matching]
            if len(kept) >= wanted or len(hits) < limit or limit == _MOST:
                break
            limit = min(limit * _MORE, _MOST)
        shown = kept[op.offset : wanted]
        if op.refresh_ttl and self.supports_ttl:
            yield from self._ask([GetOp(*place, refresh_ttl=True) for place in shown])
        return [_found(items[place], best[place].score) for place in shown]

    def _reindex(self, prefix: Namespace) -> Steps[None]:
        places: dict[Place, None] = {}
        page, more = 0, True
        while more:
            [items] = yield from self._ask(
                [SearchOp(prefix, limit=_PAGE, offset=page * _PAGE, refresh_ttl=False)]
            )
            listed = yield from ask(self._talk((prefix, "")).sync, "sessions", page + 1, _PAGE)
            ids = [each.id for each in listed.items if each.id.startswith(OURS)]
            places |= dict.fromkeys((item.namespace, item.key) for item in items)
            places |= dict.fromkeys(map(place_of, ids))
            page, more = page + 1, bool(items or listed.items)
        for place in places:
            if place[0][: len(prefix)] == prefix:
                yield from self._settle(place, None, keep=True)

    def _settle(self, place: Place, index: Any, *, keep: bool = False) -> Steps[None]:
        """Make Octopus hold the text of an item as the backing store has it now.

        The item is read again afterwards, because another writer may have changed it meanwhile.
        With `keep`, text of the same value stays, whatever fields it was made of.
        """
        talk = self._talk(place)
        before = None
        while True:
            item = (yield from self._items([place])).get(place)
            # Compare digests, because NaN is not equal to itself.
            now = mark(item and [item.value, item.updated_at])
            if now == before:
                return
            before, wanted = now, self._messages(item, index)
            known = yield from ask(talk, "tail", _MOST)
            old = [each for each in known.episodes if each.turns] if known else []
            marks = wanted[0]["metadata"] if wanted else {}
            if keep and marks:
                marks = {"value": marks["value"]}
            right = [each for each in old if marks and has(each.turns[0].message, marks)]
            if wanted and not right:
                given = {"session_id": talk.session_id, "metadata": prefixes(place[0])}
                said = "\n".join(each["content"] for each in wanted)[:SUMMARY_LIMIT]
                yield from ask(talk.sync, "store", wanted, summary=said, key_facts=[], **given)
            for each in old:
                if each not in right[:1]:
                    ids = [turn.id for turn in each.turns]
                    # A service's role `agent` may only delete it: retention removes it for good.
                    with suppress(AccessDenied):
                        yield from ask(talk.sync, "remove_turns", talk.session_id, ids=ids)
                    yield from ask(talk.sync, "delete", each.episode)

    def _messages(self, item: Item | None, index: Any) -> list[dict[str, Json]]:
        if item is None:
            return []
        paths = self._fields if index is None else index or ()
        found = [text for path in paths for text in texts_of(item.value, path)]
        texts = [text for text in found if text.strip()]
        marks = {"value": mark(item.value), "texts": mark(texts)}
        return [{"role": "assistant", "content": text, "metadata": marks} for text in texts]

    def _talk(self, place: Place) -> Conversation:
        """The session of an item: each has its own."""
        namespace, key = place
        scope = self._scope(namespace) if callable(self._scope) else self._scope
        return Conversation(scope, session_of(namespace, key))

    def _ask(self, ops: Sequence[Op]) -> Steps[list[Any]]:
        if not ops:
            return []
        found: list[Any] = yield lambda: self._backing.batch(ops), lambda: self._backing.abatch(ops)
        return found

    def _items(self, places: Iterable[Place]) -> Steps[dict[Place, Item]]:
        found = yield from self._ask([GetOp(*place, refresh_ttl=False) for place in places])
        return {(item.namespace, item.key): item for item in found if item is not None}


def _matching(items: Mapping[Place, Item], wanted: dict[str, Any] | None) -> Collection[Place]:
    """The items that a filter leaves in, by the rules of LangGraph's own store."""
    if not wanted:
        return items.keys()
    own = InMemoryStore()
    own.batch([PutOp(*place, item.value) for place, item in items.items()])
    [found] = own.batch([SearchOp((), wanted, len(items))])
    return {(item.namespace, item.key) for item in found}


def _found(item: Item, score: float | None) -> SearchItem:
    return SearchItem(item.namespace, item.key, item.value, item.created_at, item.updated_at, score)


try:
    from langgraph.store.base import get_text_at_path
except ModuleNotFoundError as error:
    raise MissingExtra("langgraph", "octopus_memory.integrations.langgraph") from error

Namespace: TypeAlias = tuple[str, ...]
Place: TypeAlias = tuple[Namespace, str]
OURS = "langgraph:"
"""The beginning of the session ids, and of the names of the sessions' metadata."""
_LETTERS = str.maketrans("0123456789", "ghijklmnop")


def texts_of(value: Any, path: str) -> Iterable[str]:
    """The texts at a path of a value; `$` is the whole of it."""
    return ["\n".join(_lines(value))] if path == "$" else get_text_at_path(value, path)


def _lines(value: Any, name: str = "") -> Iterator[str]:
    """A value as lines of its fields' names and values, which read better than JSON."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _lines(each, key)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _lines(each, name)
    elif value is not None:
        yield f"{name}: {value}"


def session_of(namespace: Namespace, key: str) -> str:
    """The id of an item's own session."""
    return OURS + json.dumps([*namespace, key], ensure_ascii=False)


def place_of(session_id: str) -> Place:
    """The item that a session is of."""
    *namespace, key = json.loads(session_id.removeprefix(OURS))
    return tuple(namespace), key


def prefixes(namespace: Namespace) -> dict[str, str]:
    """The metadata of an item's session, by which a search in any prefix finds it."""
    return {f"{OURS}{n}": mark(namespace[:n]) for n in range(len(namespace) + 1)}


def mark(value: Any) -> str:
    """A digest without digits, which a redactor might take for a phone number."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest().translate(_LETTERS)


def has(message: Message | None, marks: Mapping[str, str]) -> bool:
    """Return True if a message was written with these marks."""
    had = {} if message is None else message.body.get("metadata") or {}
    return all(had.get(name) == mark for name, mark in marks.items())
