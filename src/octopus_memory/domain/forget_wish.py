"""Recognizes a wish to forget: "Forget what I told you about …", in five languages.

Such a turn is replayed, but it is neither recalled nor a source of facts or summaries, because it
repeats what is to be forgotten. The same holds for the assistant's answers to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from .forget import sentences

if TYPE_CHECKING:
    from .message import Message

_VERBS = (
    *("forget", "forgot", "delet", "eras", "remov", "wipe", "remember"),
    *("vergess", "vergiss", "lösch", "entfern", "streich", "merk", "behalt"),
    *("oubli", "effac", "supprim", "retiens", "retenez", "gard"),
    *("olvid", "olvíd", "borr", "elimin", "recuerd", "guard", "quit"),
    *("忘", "删", "清除", "抹去", "记住", "记得"),
)
"""One is in every wish and nearly always in the answer, so that other messages cost little."""

_SAID_EN = (
    r"(?:i|we)(?:'ve| have)? (?:just )?(?:said|told|mentioned|wrote|written|shared|talked|spoke)"
)
_WISHES = {
    "en": r"""
        forget\ (?!to\b|it\b[,.!]?\s*\w)
          (?:about|what|that|this|everything|all|anything|my|the|our|it|we|i)\b
        |(?:delete|remove|erase|wipe|drop)[ ]
          (?:(?:all|everything|anything|what(?:ever)?|the\ things?|that)\ )+
          (?:that\ )?(?:you\ (?:know|remember|have|stored|saved)|SAID)
        |(?:delete|remove|erase|wipe)\b[^.!?]*\bfrom\ (?:your|the)\ memory
        |(?:do\ not|don'?t|stop|never)\ remember(?:ing)?\b
    """.replace("SAID", _SAID_EN.replace(" ", r"\ ")),
    "de": r"""
        (?:vergiss|vergesst|vergessen\ sie)(?:\ bitte)?,?\ (?!nicht\b)(?:bitte\ )?\w
        |(?:lösche?|löschen\ sie|entferne?|entfernen\ sie|streiche?|streichen\ sie)(?:\ bitte)?,?[ ]
          (?:alles,?\ )?(?:was|dass)\ (?:ich|wir|du|sie)\b
        |(?:merke?\ dir|merken\ sie\ sich|behalte?)(?:\ bitte)?\ (?:das\ )?nicht
        |(?!ich\b)[^.!?]*\bvergessen,\ (?:was|dass)\ (?:ich|wir)\b
        |[^.!?]*\baus\ (?:deinem|dem|ihrem)\ gedächtnis\ (?:löschen|entfernen|streichen)
    """,
    "fr": r"""
        (?:oublie|oubliez|oublier)\ (?!pas\b|de\b)\w
        |(?:efface|effacez|effacer|supprime|supprimez|supprimer)\ (?:tout\ )?(?:ce\ que|que)[ ]
          (?:je|j'|nous|tu|vous)
        |(?:ne\ )?(?:retiens|retenez|garde|gardez)\ pas\b
    """,
    "es": r"""
        (?:olvida|olvide|olvidad|olvidar|olvídate\ de|olvídese\ de|olvidarte\ de)\ \w
        |(?:borra|borre|borrar|elimina|elimine|eliminar|quita)\ (?:todo\ )?lo\ que[ ]
          (?:te\ |le\ |os\ )?(?:he\ |hemos\ )?
          (?:dije|dicho|conté|contado|mencion|sabes|hablé|hablado)
        |no\ (?:recuerdes|recuerde|guardes|guarde)\b
    """,
}
_OPENING = r"""
    (?:(?:please|ok(?:ay)?|hey|hi|hello|actually|sorry|wait|now|just|and|also|so|then|no|yes|well
    |(?:can|could|would|will)\ you|you\ (?:can|should|must|may)|i\ (?:want|need|ask)\ you\ to
    |i'?d\ like\ you\ to|i\ would\ like\ you\ to
    |bitte|ach|kannst\ du|könntest\ du|können\ sie|könnten\ sie|und|ich\ möchte,\ dass\ du
    |s'?il\ (?:te|vous)\ pla[iî]t|peux-tu|pourrais-tu|pouvez-vous|pourriez-vous|tu\ peux
    |vous\ pouvez|j'aimerais\ que\ tu|je\ voudrais\ que\ tu|et|alors|ah
    |por\ favor|puedes|podrías|puede|podría|quiero\ que|y|oye|bueno|mejor)
    [\s,:!–-]*)*
"""
_CHINESE = (
    r"^[\s，,]*(?:请|麻烦|拜托|能不能|可不可以|可以|能|好|那|你|帮我|把)*[\s，,]*"
    r"(?:(?:忘记|忘掉|忘了|删除|删掉|清除|抹去)(?:掉|了)?(?:我|关于|有关|刚才|刚刚|之前|所有|这|那|一切)"
    r"|我.*(?:忘记|忘掉|忘了|删除|删掉|清除)(?:吧|掉|了)?[。！!？?]*$"
    r"|(?:不要|别)(?:再)?(?:记住|记得))"
)
_NEGATED = r"(?:别|不要|不能|没)忘|我(?:又|差点)?忘(?:了|记)(?!.*[吧掉])"
_REPLY = (
    r"^\W*(?:yes|yeah|yep|yup|ok|okay|sure|please|confirm|do it|no|nope|ja|jep|klar|gerne|nein"
    r"|oui|d'accord|non|sí|si|claro|vale|是|对|好|确认|可以|不)(?!\w{2})(?:\W+\w+){0,4}\W*$"
)
"""The user's "yes, please" inside an exchange about forgetting."""
_LONGEST_REPLY = 80


def is_forget_wish(text: str) -> bool:
    """Return whether a user's message asks the agent to forget something."""
    return _has_verb(text) and any(map(_is_wish, sentences(text)))


@cache
def _wish() -> re.Pattern[str]:
    """The pattern of a wish, compiled on first use, because most messages do not need it."""
    start, wishes = r"^[\s\"'“„«¿¡*_-]*", "|".join(_WISHES.values())
    return re.compile(f"{start}{_OPENING}(?:{wishes})", re.IGNORECASE | re.VERBOSE)


def _is_wish(sentence: str) -> bool:
    said = sentence.replace("’", "'")
    if _wish().match(said):
        return True
    return not said.isascii() and not re.search(_NEGATED, said) and bool(re.match(_CHINESE, said))


def about_forgetting(
    messages: Sequence[Message], before: Callable[[], Sequence[tuple[Message, bool]]]
) -> list[bool]:
    """Return for each message whether it is a wish to forget or belongs to the answer.

    `before` reads the messages before them, each with whether it is recalled, if they are needed.
    An exchange about forgetting begins with the user's wish. The assistant's and the tools'
    messages that follow belong to it if they speak of forgetting, and so does the user's short
    reply to them.
    """
    if not _may_be_it(messages):
        return [False] * len(messages)
    exchange = _Exchange()
    if messages[0].role != "user" or not is_forget_wish(messages[0].text):
        for message, is_recalled in before():
            exchange.hear(message, was_hidden=not is_recalled)
    return [exchange.hear(message) for message in messages]


class _Exchange:
    """Follows a conversation into an exchange about forgetting and out of it."""

    def __init__(self) -> None:
        self._inside = self._answered = False

    def hear(self, message: Message, *, was_hidden: bool = False) -> bool:
        """Return whether the message belongs to the exchange."""
        if message.role == "user":
            is_reply = self._inside and self._answered and _is_reply(message.text)
            self._inside, self._answered = is_reply or is_forget_wish(message.text), False
            return self._inside
        if message.role == "system" or not _speaks_of_it(message):
            return False
        if was_hidden:
            # The wish that it answers may be removed already, with what it was about.
            self._inside = True
        self._answered = self._answered or self._inside
        return self._inside


def _may_be_it(messages: Sequence[Message]) -> bool:
    """Return whether any of the messages can be part of an exchange about forgetting; cheap."""
    follows = True
    for message in messages:
        if message.role == "user":
            if _has_verb(message.text):
                return True
            follows = _is_reply(message.text)
        elif follows and _speaks_of_it(message):
            return True
    return False


def _is_reply(text: str) -> bool:
    return len(text) <= _LONGEST_REPLY and re.match(_REPLY, text.lower()) is not None


def _has_verb(text: str) -> bool:
    folded = text.lower()
    return any(verb in folded for verb in _VERBS)


def _speaks_of_it(message: Message) -> bool:
    return _has_verb(message.text) or any(_has_verb(str(each)) for each in message.requests)
