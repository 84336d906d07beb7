"""The playground: the block for a message, with other settings tried beside the agent's own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ....domain.block.passages import LeftOutReason, Passage
from ....domain.context import MemoryContext
from ....domain.errors import EmbedderFailed, InvalidInput
from ....domain.policy import Layout, MemoryConfig
from ....engine.inspection import Named, Stage
from ....ports.models import Embedder
from ....wiring import local_embedders
from .. import wording
from ..charts import Sum, add_up
from ..visit import Answer, Page, Visit
from .replay import SEES

_LONGEST_MESSAGE = 10_000
_MOST_BUDGET = 4_000
_AFTER_SENTENCE = re.compile(r"(?<=[.!?\"])(?=\s)|(?<=\n)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A passage with the bars that add up to its relevance."""

    passage: Passage
    sum: Sum
    words: list[tuple[str, str]]
    """What each signal saw, by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """Context block of the message under one choice of settings."""

    name: str
    budget: int
    threshold: float
    layout: str
    with_facts: bool
    embedder: str
    """One of the local embedders; empty for the memory's own."""
    problem: str
    context: MemoryContext | None
    explained: list[Explained]
    stages: Sequence[Stage]
    left_out: Sequence[Named]
    code: str

    @property
    def sentences(self) -> list[str]:
        """The block in pieces that together are its text."""
        text = "" if self.context is None else self.context.text
        return _AFTER_SENTENCE.split(text) if text else []


def show(visit: Visit) -> Answer:
    return Page(template="playground.html", values=_values(visit))


def result(visit: Visit) -> Answer:
    """Render the part of the page that changes with the sliders."""
    return Page(template="playground_result.html", values=_values(visit))


def _values(visit: Visit) -> dict[str, object]:
    visit.need(*SEES)
    whose = visit.whose
    config = visit.memory.config(whose.agent, tenant=whose.tenant)
    message = visit.given("message")[:_LONGEST_MESSAGE]
    compare = visit.given("compare") == "on"
    tried = [_try(visit, config, message, "")]
    if compare:
        tried.append(_try(visit, config, message, "2"))
    return {
        "scope": whose,
        "message": message,
        "compare": compare,
        "tried": tried,
        "others": _others(tried),
        "questions": wording.QUESTIONS,
        # There is no history on the page.
        "left_out": wording.LEFT_OUT | {LeftOutReason.HISTORY: "the message says the same"},
        "layouts": list(Layout),
        "embedders": _embedders(visit),
        "own_embedder": visit.memory.embedding_model,
        "most_budget": _MOST_BUDGET,
        "signals": wording.SIGNALS,
    }


def _others(tried: list[Tried]) -> dict[str, frozenset[str]]:
    """Sentences of the block that each one is compared with: its own, if there is no other."""
    said = [frozenset(piece.strip() for piece in each.sentences) for each in tried]
    if all(each.context is not None for each in tried):
        said.reverse()
    return {each.name: other for each, other in zip(tried, said, strict=True)}


def _try(visit: Visit, config: MemoryConfig, message: str, suffix: str) -> Tried:
    budget = visit.number(
        f"budget{suffix}",
        min(config.context.budget_tokens, _MOST_BUDGET),
        least=0,
        most=_MOST_BUDGET,
    )
    default = round(config.recall.min_recall_score * 100)
    threshold = visit.number(f"threshold{suffix}", default, least=0, most=100) / 100
    given = visit.given(f"layout{suffix}")
    layout = Layout(given) if given in list(Layout) else config.context.layout
    with_facts = visit.given(f"facts{suffix}") != "off"
    embedder = visit.given(f"embedder{suffix}")
    other = _embedders(visit).get(embedder)
    tried, problem = None, ""
    if message:
        chosen = replace(
            config,
            recall=replace(config.recall, min_recall_score=threshold),
            context=replace(config.context, budget_tokens=budget, layout=layout),
        )
        inspection = visit.memory.inspection(visit.scope)
        try:
            tried = inspection.try_context(message, chosen, with_facts=with_facts, embedder=other)
        except InvalidInput as error:
            problem = f"The {error.field} {error.problem}."
        except EmbedderFailed as error:
            problem = str(error)
    return Tried(
        name="B" if suffix else "A",
        budget=budget,
        threshold=threshold,
        layout=layout.value,
        with_facts=with_facts,
        embedder=embedder if other else "",
        problem=problem,
        context=None if tried is None else tried.context,
        explained=[] if tried is None else [_explain(each) for each in _by_score(tried.context)],
        stages=() if tried is None else tried.stages,
        left_out=() if tried is None else tried.left_out,
        code=_code(visit, message, budget, threshold, layout, embedder if other else ""),
    )


def _embedders(visit: Visit) -> dict[str, Embedder]:
    """Return the embedders to compare with the memory's own: none that sends texts elsewhere."""
    own = visit.memory.embedding_model
    return {name: each for name, each in local_embedders().items() if each.model != own}


def _by_score(context: MemoryContext) -> list[Passage]:
    return sorted(context.passages, key=lambda passage: -passage.score)


def _explain(passage: Passage) -> Explained:
    shares = passage.signals
    return Explained(
        passage=passage,
        sum=add_up((share.signal, share.contribution) for share in shares),
        words=[(wording.SIGNALS.get(share.signal, share.signal), share.words) for share in shares],
    )


def _code(
    visit: Visit, message: str, budget: int, threshold: float, layout: Layout, embedder: str
) -> str:
    scope = visit.whose
    whose = f"tenant={scope.tenant!r}, agent={scope.agent!r}, user={scope.user!r}"
    recall = f"EpisodicRecallConfig(min_recall_score={threshold})"
    lines = (
        "from octopus_memory import ContextConfig, EpisodicMemory, EpisodicRecallConfig",
        "",
        *(["# What is stored is embedded again, in the background."] if embedder else []),
        f"memory = EpisodicMemory.open({f'embedder={embedder!r}' if embedder else ''})",
        f"scope = memory.scope({whose})",
        f"memory.configure({scope.agent!r}, {recall})",
        f"memory.configure({scope.agent!r}, ContextConfig(layout={layout.value!r}))",
        f"context = scope.context({message!r}, budget_tokens={budget})",
        "print(context.text)",
    )
    return "\n".join(lines)
