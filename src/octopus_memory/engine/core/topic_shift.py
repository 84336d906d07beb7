"""Detection of a message that leaves the topic of its episode, before it is stored."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ...domain import topics
from ...domain.episode import Episode, Scope, Turn
from ...domain.errors import for_log
from ...domain.message import Message, Role, open_calls
from ...domain.topics import CosineScale, TopicTurn
from ...ports.episodes import EpisodeLog
from ...ports.models import Analyzer, Clock, Embedder
from ...ports.values import NewTurn

log = logging.getLogger(__name__)

_SESSIONS_KEPT = 256
_PAUSE = timedelta(seconds=30)
"""Pause of detection after the embedder failed, so that not every write waits for it."""

_MOST_READ = 5 * topics.LOOK_BACK
_EMBED_CHARS = 1_000
"""Characters of a long text that are embedded."""


@dataclass(slots=True)
class _Heard:
    """Features of one turn; the vector is computed when it is first needed."""

    text: str
    said: TopicTurn
    vector: NDArray[np.float32] | None = None


_Session = tuple[Scope, str]


class TopicWatch:
    """Detects topic shifts, with a cache of the last turns of recent sessions. Thread-safe.

    For a session that is not cached, the turns are read from the store.
    """

    def __init__(
        self,
        store: EpisodeLog,
        embedder: Embedder,
        analyzer: Analyzer,
        clock: Clock,
        *,
        size: int = _SESSIONS_KEPT,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._analyzer = analyzer
        self._clock = clock
        self._size = size
        self._lock = threading.Lock()
        self._heard: OrderedDict[_Session, dict[UUID, _Heard]] = OrderedDict()
        self._scale: CosineScale | None = None
        self._paused_until: datetime | None = None

    def has_shifted(self, scope: Scope, episode: Episode, new: Sequence[NewTurn]) -> bool:
        """Return whether the first of the new turns starts another topic.

        Only a user's message does, and never while a tool call waits for its result. A failing
        embedder means no shift, because it must not prevent storing a message.
        """
        first = new[0]
        if first.message.role is not Role.USER:
            return False
        turns = self._last_turns(scope, episode)
        if _has_open_call([turn.message for turn in turns]):
            return False
        known = self._known(scope, episode)
        before = {
            turn.id: known.get(turn.id) or self._hear(turn.message)
            for turn in turns
            if _is_talk(turn.message)
        }
        heard = known.get(first.id) or self._hear(first.message)
        shifted = self._is_shift([*before.values()], heard, _answer(new))
        self._keep(scope, episode, before | {first.id: heard})
        return shifted

    def clear_cache(self) -> None:
        """Clear the cached turns. They are read again if they still exist."""
        with self._lock:
            self._heard.clear()

    def _last_turns(self, scope: Scope, episode: Episode) -> list[Turn]:
        """Read back far enough to have some conversation between the tool turns."""
        found: list[Turn] = []
        start = episode.message_count
        while start > 0 and len(found) < _MOST_READ:
            stop, start = start, max(0, start - topics.LOOK_BACK)
            found = self._store.turns(scope, episode.id, start=start, stop=stop) + found
            if sum(_is_talk(turn.message) for turn in found) >= topics.LOOK_BACK // 2:
                break
        return found

    def _is_shift(self, before: Sequence[_Heard], new: _Heard, answer: Message | None) -> bool:
        said = [turn.said for turn in before]
        words, now = topics.by_words(said, new.said), self._clock.now()
        if words <= 0 or (self._paused_until is not None and now < self._paused_until):
            return False
        window = [before[place] for place in topics.window(said)]
        answered = [self._hear(answer)] if answer is not None else []
        try:
            scale = self._scale or self._measured()
            vectors = self._vectors([*window, new, *answered])
        except Exception as error:  # noqa: BLE001 - storing never fails because a model did
            log.warning("topic-shift detection skipped, embedder failed: %s", for_log(error))
            self._paused_until = now + _PAUSE
            return False
        cosine = topics.cohesion(vectors[: len(window)], vectors[len(window) :])
        return topics.is_shift(words, scale.nearness(cosine))

    def _measured(self) -> CosineScale:
        first, second = topics.reference()
        vectors = self._embedder.embed([*first, *second])
        self._scale = CosineScale.of(vectors[: len(first)], vectors[len(first) :])
        return self._scale

    def _vectors(self, turns: Sequence[_Heard]) -> NDArray[np.float32]:
        missing = [turn for turn in turns if turn.vector is None]
        made = self._embedder.embed([turn.text for turn in missing]) if missing else ()
        for turn, vector in zip(missing, made, strict=True):
            turn.vector = np.asarray(vector)
        return np.stack([turn.vector for turn in turns if turn.vector is not None])

    def _hear(self, message: Message) -> _Heard:
        text = message.text
        said = TopicTurn(
            terms=frozenset(self._analyzer.terms(text)),
            opening=topics.opening(text),
            may_start=message.role is Role.USER,
        )
        return _Heard(text=text[:_EMBED_CHARS], said=said)

    def _known(self, scope: Scope, episode: Episode) -> dict[UUID, _Heard]:
        with self._lock:
            return self._heard.get((scope, episode.session_id), {})

    def _keep(self, scope: Scope, episode: Episode, heard: dict[UUID, _Heard]) -> None:
        key = (scope, episode.session_id)
        with self._lock:
            self._heard[key] = heard
            self._heard.move_to_end(key)
            if len(self._heard) > self._size:
                self._heard.popitem(last=False)


def _is_talk(message: Message) -> bool:
    return message.role in (Role.USER, Role.ASSISTANT) and bool(message.text.strip())


def _answer(new: Sequence[NewTurn]) -> Message | None:
    """Return the answer to the first message, if the same call stores it."""
    for turn in new[1:]:
        if turn.message.role is Role.USER:
            return None
        if turn.message.role is Role.ASSISTANT and _is_talk(turn.message):
            return turn.message
    return None


def _has_open_call(messages: Sequence[Message]) -> bool:
    return any(open_calls(messages).values())
