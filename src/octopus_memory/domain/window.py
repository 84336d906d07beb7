"""Context-window management: fits system prompt, memory block and history into the limit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from .block.block import RECORD, TokenCount, longest
from .episode import SUMMARY_LIMIT
from .errors import InvalidMessage
from .message import Json, Message, MessageLike, Role, message_tokens, parse_message
from .policy import ContextConfig, PruneStrategy
from .text.neutralize import neutralize, shorten

Body: TypeAlias = dict[str, Json]
"""A chat-completion message for a provider."""

_SUMMARY_HEAD = "[Earlier in this conversation]"
_SUMMARY_END = f"[End of earlier in this conversation] It is {RECORD}."
# Reserved for the summary of the pruned part, but at most a tenth of the limit.
_SUMMARY_TOKENS = 512
_SHORTEST_SUMMARY = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedMessages:
    """Messages to send, their tokens, and the number of history messages left out."""

    messages: list[Body]
    tokens: int
    dropped: int
    overflow_tokens: int = 0
    """Tokens over the limit, because the system messages, the block and the current message are
    never left out; 0 if everything fits."""


def fit_messages(
    system: str | None,
    block_text: str,
    history: Sequence[Message],
    current: Message,
    config: ContextConfig,
    count: TokenCount,
    summarize: Callable[[list[Body]], str] | None = None,
) -> FittedMessages:
    """System prompt, block, as much of the history as fits, and the current user message.

    The history is pruned by whole exchanges: a user message and everything up to the next one.
    The last `min_history_turns` exchanges stay as long as they fit into `max_working_memory_tokens`
    minus `output_reserve`. If they do not, their tool rounds are dropped, oldest first, then the
    exchanges themselves. What still does not fit is counted in `overflow_tokens`. System messages
    at the start of the history count as further system prompts and stay before the block, unless
    they repeat `system`. With `single_system_message` all system messages, wherever they are in
    the history, are merged into the first message.

    Providers reject a tool call that is not followed at once by all of its results, and a result
    without its call. Both are left out, with their other half, and counted in `dropped`.

    With the strategy `summarize`, one system message before the history summarizes what was
    pruned: the text that `summarize` returns, neutralized and cut to fit. Without `summarize` the
    strategy is `fifo`.

    Messages are copied; `history` and `current` do not change. Images are not counted.
    """
    pinned, rest = _split_system(history, everywhere=config.single_system_message)
    exchanges = _exchanges(_without_orphans(rest))
    costs = [_tokens(exchange, count) for exchange in exchanges]
    limit = config.max_working_memory_tokens - config.output_reserve

    prompts = [system, *(p for p in pinned if p.text != system), block_text]
    head = _head(prompts, config)
    room = limit - _tokens([*head, current], count)
    kept = _kept(exchanges, costs, room, config, count)
    if (
        summarize
        and config.prune == PruneStrategy.SUMMARIZE
        and len(kept) < sum(map(len, exchanges))
    ):
        spare = min(_SUMMARY_TOKENS, max(0, limit // 10))
        kept = _kept(exchanges, costs, room, config, count, spare=spare)
        summary = summarize(_bodies_without(chain(*exchanges), kept))
        left = limit - _tokens([*kept, current], count)
        head = _head_with_summary(prompts, summary, left, config, count) or head

    tokens = _tokens([*head, *kept, current], count)
    return FittedMessages(
        messages=[dict(message.body) for message in (*head, *kept, current)],
        tokens=tokens,
        dropped=len(history) - len(pinned) - len(kept),
        overflow_tokens=max(0, tokens - limit),
    )


def parse_history(history: Sequence[MessageLike]) -> list[Message]:
    """The messages of a caller's history.

    :raises InvalidMessage: naming `history[i]`
    """
    if isinstance(history, str | bytes) or not isinstance(history, Sequence):
        raise InvalidMessage("history", f"must be a list of messages, not {type(history).__name__}")
    return [
        parse_message(given, field=f"history[{number}]", max_bytes=sys.maxsize)
        for number, given in enumerate(history)
    ]


def parse_current(current: str | MessageLike) -> Message:
    """The current user message.

    :raises InvalidMessage: naming `message`
    """
    if isinstance(current, str):
        current = ("user", current)
    message = parse_message(current, field="message", max_bytes=sys.maxsize)
    if message.role is not Role.USER:
        raise InvalidMessage("message.role", "must be user: pass other messages in the history")
    return message


def _split_system(
    messages: Sequence[Message], *, everywhere: bool
) -> tuple[list[Message], list[Message]]:
    """System messages (those at the start, or everywhere), and the rest."""
    pinned: list[Message] = []
    rest: list[Message] = []
    for message in messages:
        pin = message.role is Role.SYSTEM and (everywhere or not rest)
        (pinned if pin else rest).append(message)
    return pinned, rest


def _without_orphans(messages: Sequence[Message]) -> list[Message]:
    kept: list[Message] = []
    i = 0
    while i < len(messages):
        message = messages[i]
        i += 1
        answers: dict[str, Message] = {}
        requests = message.requests if message.role is Role.ASSISTANT else ()
        asked = {request["id"] for request in requests}
        while i < len(messages) and messages[i].role is Role.TOOL:
            answer = messages[i].body["tool_call_id"]
            if answer in asked:
                answers.setdefault(answer, messages[i])
            i += 1
        if message.role is not Role.TOOL and asked == answers.keys():
            kept += (message, *answers.values())
    return kept


def _exchanges(messages: Iterable[Message]) -> list[list[Message]]:
    """Split before each user message; messages before the first one form their own exchange."""
    exchanges: list[list[Message]] = []
    for message in messages:
        if not exchanges or message.role is Role.USER:
            exchanges.append([])
        exchanges[-1].append(message)
    return exchanges


def _kept(
    exchanges: Sequence[Sequence[Message]],
    costs: Sequence[int],
    room: int,
    config: ContextConfig,
    count: TokenCount,
    *,
    spare: int = 0,
) -> list[Message]:
    """The messages that stay. Only exchanges beyond the minimum make room for `spare` tokens."""
    start = _first_kept(exchanges, costs, room - spare, config)
    over = sum(costs[start:]) - room
    if over <= 0:
        return list(chain(*exchanges[start:]))
    # Keep those of the minimum's exchanges that fit without their tool rounds.
    split = [_rounds(exchange) for exchange in exchanges[start:]]
    bare = [_tokens(chain(*(s for s in e if not _is_round(s))), count) for e in split]
    while split and sum(bare) > room:
        del split[0], bare[0]
    steps = list(chain(*split))
    over = _tokens(chain(*steps), count) - room
    kept: list[Message] = []
    for step in steps:
        if over > 0 and _is_round(step):
            over -= _tokens(step, count)
        else:
            kept += step
    return kept


def _rounds(exchange: Sequence[Message]) -> list[list[Message]]:
    """An exchange split into steps: a call with its results, or a single message."""
    steps: list[list[Message]] = []
    for message in exchange:
        if message.role is Role.TOOL:
            steps[-1].append(message)
        else:
            steps.append([message])
    return steps


def _is_round(step: Sequence[Message]) -> bool:
    return len(step) > 1


def _bodies_without(messages: Iterable[Message], kept: Sequence[Message]) -> list[Body]:
    known = set(map(id, kept))
    return [dict(message.body) for message in messages if id(message) not in known]


def _first_kept(
    exchanges: Sequence[Sequence[Message]], costs: Sequence[int], room: int, config: ContextConfig
) -> int:
    """Index of the oldest exchange that stays."""
    asked = sum(exchange[0].role is Role.USER for exchange in exchanges)
    latest = len(exchanges) - min(asked, config.min_history_turns)
    start = 0
    if config.prune == PruneStrategy.SLIDING_WINDOW:
        start = min(latest, max(0, len(exchanges) - config.sliding_window_turns))
    needed = sum(costs[start:])
    while start < latest and needed > room:
        needed -= costs[start]
        start += 1
    return start


def _head(prompts: Sequence[str | Message | None], config: ContextConfig) -> list[Message]:
    """System messages before the history, or the one they are merged into."""
    given = [p if isinstance(p, Message) else _system(p) for p in prompts if p]
    if config.single_system_message and given:
        return [_system("\n\n".join(message.text for message in given))]
    return given


def _head_with_summary(
    prompts: Sequence[str | Message | None],
    summary: str,
    room: int,
    config: ContextConfig,
    count: TokenCount,
) -> list[Message] | None:
    safe = neutralize(summary, SUMMARY_LIMIT)

    def head(length: int) -> list[Message]:
        summary = f"{_SUMMARY_HEAD}\n{shorten(safe, length)}\n{_SUMMARY_END}"
        return _head([*prompts, summary], config)

    least = min(len(safe), _SHORTEST_SUMMARY)
    length = longest(least, len(safe), lambda n: _tokens(head(n), count) <= room)
    return head(length) if length else None


def _system(text: str) -> Message:
    return Message({"role": "system", "content": text})


def _tokens(messages: Iterable[Message], count: TokenCount) -> int:
    return sum(message_tokens(message, count) for message in messages)
