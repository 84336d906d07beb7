"""Forgetting what a user said about something: a preview, then the removal that it names.

The preview stores ids and digests, so the removal is decided by them alone: what was said after the
preview stays. One transaction removes everything and records an erasure as unfinished. The steps
after it are those of an erasure, which any process can finish.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from uuid import UUID

from ...domain.checks import fact_id_of, turn_id_of
from ...domain.episode import Scope, Summary, Turn
from ...domain.erasure import Erasure
from ...domain.errors import EpisodeChanged, EpisodeNotFound, NotFound
from ...domain.facts import Fact
from ...domain.forget import (
    FORGOTTEN,
    PREVIEW_LIFE,
    Chosen,
    Digests,
    ForgetPreview,
    ForgetReceipt,
    text_digest,
    without,
)
from ...domain.ids import new_id
from ...domain.message import AS_GIVEN, Message
from ...ports.privacy import ForgottenEpisode
from ...ports.values import NewSummary, StoredEpisode
from ..core import audit
from ..core.pii_guard import Checked
from ..core.redaction import Leaf, map_json_text, map_message
from ..core.runtime import Runtime, retry_on_settings_change
from ..write import close, index_turns
from . import erasure, scrub
from .forget_search import Found, by_ids, search

_RETRIES = 20
"""Retries of a removal that lost a race with another caller."""
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""Letters of a token: none that a model or a person mistakes for another."""
_TOKEN_LENGTH = 10

Goes = Callable[[str], bool]
"""Tells whether a sentence goes."""


def preview(
    runtime: Runtime,
    scope: Scope,
    about: str | None,
    *,
    turns: Collection[Turn | UUID | str],
    facts: Collection[Fact | UUID | str],
) -> ForgetPreview:
    """Find what is meant, and keep its ids for `confirm`."""
    runtime.ledger.flush()
    expires_at = runtime.clock.now() + PREVIEW_LIFE
    found = Found()
    if about is not None:
        found = search(runtime, scope, about)
    if turns or facts:
        ids = [turn_id_of(each) for each in turns], [fact_id_of(each) for each in facts]
        found = found.joined(by_ids(runtime, scope, *ids))
    if not found.chosen:
        return ForgetPreview(
            token="", expires_at=expires_at, is_clear=False, items=tuple(found.weak)
        )
    token = "".join(secrets.choice(_LETTERS) for _ in range(_TOKEN_LENGTH))
    runtime.store.keep_preview(
        scope, token, found.chosen, expires_at=expires_at, now=runtime.clock.now()
    )
    return ForgetPreview(
        token=token,
        expires_at=expires_at,
        is_clear=True,
        items=tuple(found.items),
        related=tuple(found.weak),
    )


@retry_on_settings_change
def confirm(runtime: Runtime, scope: Scope, token: str, *, actor: str) -> ForgetReceipt:
    """Remove the items of a preview.

    :raises NotFound: when the token is unknown here, expired or used
    :raises LegalHold: when a hold applies; nothing is removed
    """
    runtime.ledger.flush()
    return erasure.complete(runtime, _removed(runtime, scope, token, actor=actor))


def _removed(runtime: Runtime, scope: Scope, token: str, *, actor: str) -> Erasure:
    about = {"tenant": scope.tenant, "actor": actor, "user": scope.user}
    erasure_id = new_id()
    with audit.refusals(runtime, "forget", **about):
        for _ in range(_RETRIES):
            chosen = runtime.store.preview(scope, token, now=runtime.clock.now())
            if chosen is None:
                raise NotFound(
                    "no such preview in this scope: it expired or was confirmed already. "
                    "Ask for a new one"
                )
            entry = audit.draft(runtime, "forget", **about, erasure=str(erasure_id))
            begun = Erasure(
                id=erasure_id,
                tenant=scope.tenant,
                at=entry.at,
                subject=entry.subject or "",
                actor=entry.actor,
            )
            try:
                episodes = _planned(runtime, scope, chosen)
                done = runtime.store.forget(scope, token, chosen, episodes, begun, entry)
            except (EpisodeChanged, EpisodeNotFound) as error:
                lost = error
                continue
            runtime.clear_caches()
            return done
        raise lost


def _planned(runtime: Runtime, scope: Scope, chosen: Chosen) -> list[ForgottenEpisode]:
    planned = []
    for episode_id in chosen.episode_ids:
        # A turn that is indexed after the state is read would look like a rewrite.
        index_turns.catch_up(runtime, scope, episode_id)
        was = runtime.store.stored_episode(scope, episode_id)
        # It may have been erased since the preview, and then nothing of it is left to forget.
        if was is not None:
            planned.append(_episode(runtime, was, chosen))
    return planned


def _episode(runtime: Runtime, was: StoredEpisode, chosen: Chosen) -> ForgottenEpisode:
    wanted = chosen.turns.get(was.episode.id, {})
    removed: set[UUID] = set()
    checked: list[Checked | None] = []
    for turn in was.turns:
        if turn.id not in wanted:
            checked.append(Checked(message=turn.message))
            continue
        digests = wanted[turn.id]
        new = _rewritten(runtime, was, turn.message, digests)
        is_gone = digests is None or new.content == FORGOTTEN
        if is_gone and not was.is_deleted and _stands_alone(turn.message):
            removed.add(turn.id)
            checked.append(None)
        else:
            checked.append(Checked(message=new))
    left = [
        replace(turn, message=new.message)
        for turn, new in zip(was.turns, checked, strict=True)
        if new is not None
    ]
    return ForgottenEpisode(
        was=was,
        turns=scrub.rewritten_turns(runtime, was, checked),
        removed=frozenset(removed),
        summary=_summary(runtime, was, left, changed=bool(wanted), chosen=chosen),
    )


def _stands_alone(message: Message) -> bool:
    """True if no other message refers to it, as a tool's call and its result do."""
    return message.role.value in ("user", "assistant") and not message.requests


def _rewritten(
    runtime: Runtime, was: StoredEpisode, message: Message, digests: Digests | None
) -> Message:
    goes = _goes(runtime, was.episode.scope, digests)

    def visit(leaf: Leaf) -> str | None:
        if leaf.text.lstrip()[:1] in ("{", "["):
            mapped = map_json_text(leaf.text, lambda inner: without(inner.text, goes))
            if mapped is not leaf.text:
                return mapped
        return without(leaf.text, goes)

    body = map_message(message.body, visit)
    if body is message.body:
        return message
    # The original item of another provider's form repeats the text. The message stands without it.
    return Message({key: value for key, value in body.items() if key != AS_GIVEN})


def _goes(runtime: Runtime, scope: Scope, digests: Digests | None) -> Goes:
    if digests is None:
        return lambda sentence: bool(sentence.strip())
    wanted, salt = frozenset(digests), runtime.store.salt
    return lambda sentence: text_digest(salt, scope.tenant, sentence) in wanted


def _summary(
    runtime: Runtime, was: StoredEpisode, left: Sequence[Turn], *, changed: bool, chosen: Chosen
) -> NewSummary | None:
    """Summarize the turns that are left, or take the lines out of a summary without turns."""
    episode = was.episode
    if episode.summary is None:
        return None
    if changed:
        return _remade(runtime, was, left)
    goes = _goes(runtime, episode.scope, chosen.summaries.get(episode.id, ()))
    text = " ".join(_kept([episode.summary], goes))
    made = Summary(text=text, key_facts=tuple(_kept(episode.key_facts, goes)))
    by = episode.summarized_by or close.BY_CALLER
    return close.new_summary(runtime, episode.scope, made, by)


def _kept(texts: Sequence[str], goes: Goes) -> Iterator[str]:
    for text in texts:
        left = without(text, goes) or text
        if left != FORGOTTEN:
            yield left


def _remade(runtime: Runtime, was: StoredEpisode, left: Sequence[Turn]) -> NewSummary | None:
    """Summarize again, also if a caller or model wrote the old summary."""
    turns = [replace(turn, ordinal=ordinal) for ordinal, turn in enumerate(left)]
    said = [turn for turn in turns if turn.indexed and turn.text.strip() != FORGOTTEN]
    new = close.summary_of(runtime, was.episode.scope, said)
    if new is None:
        if not turns:
            return None
        empty = Summary(text="", key_facts=())
        by = runtime.extractive.name
        return close.new_summary(runtime, was.episode.scope, empty, by, turns=())
    active = not was.episode.is_archived and not was.is_deleted
    return replace(new, improve=new.improve and active)
