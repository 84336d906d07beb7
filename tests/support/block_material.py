"""Turns, snippets, facts and candidates for tests of the context block."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import strategies as st

from octopus_memory import EpisodeSnippet, Role, TurnHit
from octopus_memory.domain.block.block import Block, Material, make_block
from octopus_memory.domain.block.passages import Candidate
from octopus_memory.domain.context import QuestionKind
from octopus_memory.domain.facts import Fact, FactKind
from octopus_memory.domain.policy import Layout

START = datetime(2025, 3, 14, 9, 38, tzinfo=UTC)


def quarter(text: str) -> int:
    return -(-len(text) // 4)


def episode(number: int) -> UUID:
    return UUID(int=number + 1)


def turn(
    text: str,
    *,
    episode_number: int = 0,
    ordinal: int = 0,
    role: Role = Role.USER,
    name: str | None = None,
    at: datetime | None = None,
) -> TurnHit:
    return TurnHit(
        id=UUID(int=(episode_number + 1) << 64 | ordinal),
        episode_id=episode(episode_number),
        session_id=f"s{episode_number}",
        ordinal=ordinal,
        role=role,
        text=text,
        at=at or START + timedelta(days=episode_number, minutes=ordinal),
        score=0.9,
        name=name,
    )


def candidates(*found: TurnHit | EpisodeSnippet | tuple[TurnHit, TurnHit]) -> tuple[Candidate, ...]:
    """Return candidates ranked in the given order; the first of a pair is the turn before it."""
    made = []
    for rank, each in enumerate(found):
        before, source = each if isinstance(each, tuple) else (None, each)
        made.append(Candidate(rank=rank, score=0.9 - rank / 1_000, source=source, before=before))
    return tuple(made)


def snippet(
    summary: str,
    *key_facts: str,
    episode_number: int = 0,
    is_archived: bool = False,
    date: datetime | None = None,
) -> EpisodeSnippet:
    return EpisodeSnippet(
        episode_id=episode(episode_number),
        session_id=f"s{episode_number}",
        date=date or START + timedelta(days=episode_number),
        summary=summary,
        key_facts=key_facts,
        relevance=0.9,
        is_archived=is_archived,
    )


def fact(text: str, kind: FactKind = FactKind.OTHER, number: int = 0, **more: object) -> Fact:
    values = {"slot": str(number), "since": START, **more}
    return Fact(id=UUID(int=number + 1), kind=kind, text=text, **values)  # type: ignore[arg-type]


def word_count(query: str):
    """Return the weight of a sentence: the number of the question's words in it."""
    wanted = set(query.casefold().split())
    return lambda sentence: float(len(wanted & set(sentence.casefold().rstrip(".?!").split())))


def block_of(
    material: Material,
    *,
    layout: Layout = Layout.DETAILED,
    budget: int = 800,
    count=quarter,
    query: str = "",
    min_score: float = 0.65,
) -> Block:
    return make_block(material, layout, budget, count, min_score=min_score, weigh=word_count(query))


def materials(words: st.SearchStrategy[str]) -> st.SearchStrategy[Material]:
    """Any mixture of turns, summaries, last sessions and facts."""
    numbers = st.integers(0, 4)
    turns = st.builds(
        lambda text, number, ordinal, role, name: turn(
            text, episode_number=number, ordinal=ordinal, role=role, name=name
        ),
        words,
        numbers,
        st.integers(0, 6),
        st.sampled_from([Role.USER, Role.ASSISTANT, Role.TOOL]),
        st.none() | words,
    )
    snippets = st.builds(
        lambda text, facts, number, archived: snippet(
            text, *facts, episode_number=number, is_archived=archived
        ),
        words,
        st.lists(words, max_size=3),
        numbers,
        st.booleans(),
    )
    sources: st.SearchStrategy[object] = st.one_of(turns, st.tuples(turns, turns), snippets)
    return st.builds(
        lambda found, relevant, recent, texts, relevance, kind: Material(
            candidates=candidates(*found),
            relevant=tuple(relevant),
            recent=tuple(recent),
            facts=tuple(
                fact(text, list(FactKind)[number % len(FactKind)], number)
                for number, text in enumerate(texts)
            ),
            relevance=relevance,
            kind=kind,
        ),
        st.lists(sources, max_size=6),
        st.lists(snippets, max_size=3),
        st.lists(snippets, max_size=2),
        st.lists(words, max_size=4),
        st.floats(0, 1),
        st.sampled_from(QuestionKind),
    )


def shown_episodes(block: Block) -> set[UUID]:
    return {each.episode_id for each in (*block.passages, *block.summaries)}
