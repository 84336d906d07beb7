"""Wishes to forget: which messages are one, and which belong to the answer."""

from __future__ import annotations

import pytest

from octopus_memory.domain.forget import about_forgetting, is_forget_wish
from octopus_memory.domain.message import Message

_WISHES = """
Forget what I said about my mum's diabetes
Please forget that I live in London.
Can you forget everything about Anna?
forget about my ex
Delete everything you know about my job
please delete what I told you about the surgery
Erase that from your memory
Hi, could you remove my address from your memory?
Don't remember that.
I changed my mind. Forget what I said about Stripe.
Vergiss, was ich über meine Mutter gesagt habe
Bitte vergiss meine Adresse.
Kannst du bitte vergessen, was ich dir erzählt habe?
Lösche alles, was ich dir über Anna erzählt habe
Oublie ce que j'ai dit sur ma mère
Peux-tu oublier mon adresse ?
Efface tout ce que je t'ai dit
Olvida lo que te dije sobre mi madre
Por favor, olvida mi dirección
borra todo lo que te he dicho
请忘记我说过的糖尿病
忘掉关于我妈妈的事
能不能删除我之前说的话？
我妈妈的病你忘了吧
"""
_OTHERS = """
Don't forget to buy milk
I forgot my keys
I always forget names
Never forget that I'm allergic
Delete the file report.txt
Remove the third paragraph
How do I delete a branch?
remove everything from the cart
Did you forget my name?
Remember that I'm vegan
The settings page lets me delete what I uploaded
Vergiss nicht, Milch zu kaufen
Ich habe vergessen, den Müll rauszubringen
Ich habe vergessen, was ich sagen wollte
Mein Vergissmeinnicht blüht
N'oublie pas le lait
J'ai oublié mes clés
No olvides la leche
He olvidado mis llaves
Olvidé mi paraguas
别忘了带伞
我忘了带钥匙
"""


@pytest.mark.parametrize("text", _WISHES.strip().splitlines())
def test_a_wish_is_recognized(text: str) -> None:
    assert is_forget_wish(text)


@pytest.mark.parametrize("text", _OTHERS.strip().splitlines())
def test_other_messages_are_no_wish(text: str) -> None:
    assert not is_forget_wish(text)


def _said(*lines: str) -> list[Message]:
    return [
        Message({"role": role, "content": text})
        for role, _, text in (line.partition(": ") for line in lines)
    ]


def _stored(*lines: str) -> list[tuple[Message, bool]]:
    """Messages that are recalled."""
    return [(message, True) for message in _said(*lines)]


_EXCHANGE = (
    "user: Forget what I said about the surgery",
    "assistant: I found two messages about the surgery. Should I delete them?",
    "user: Yes, please",
    "assistant: Done, they are deleted: I know nothing of a surgery.",
    "user: Thanks! I bought a red car in Berlin",
    "assistant: Nice. I also deleted the file",
)


def test_the_exchange_ends_with_the_users_next_subject() -> None:
    found = about_forgetting(_said(*_EXCHANGE), tuple)
    assert found == [True, True, True, True, False, False]


def test_an_answer_alone_is_judged_by_what_was_said_before() -> None:
    answer = _said(_EXCHANGE[3])
    assert about_forgetting(answer, lambda: _stored(*_EXCHANGE[:3])) == [True]
    assert about_forgetting(answer, lambda: _stored("user: Delete those two files")) == [False]


def test_an_answer_is_known_when_its_wish_is_forgotten_already() -> None:
    question, yes = _stored(*_EXCHANGE[1:3])
    answer = _said(_EXCHANGE[3])
    assert about_forgetting(answer, lambda: [(question[0], False), yes]) == [True]
    assert about_forgetting(answer, lambda: [question, yes]) == [False]


def test_a_reply_and_its_answer_are_judged_together() -> None:
    """A client that stores both sides of a call at once gives them so."""
    found = about_forgetting(_said(*_EXCHANGE[2:4]), lambda: _stored(*_EXCHANGE[:2]))
    assert found == [True, True]


def test_the_context_is_not_read_for_other_messages() -> None:
    def refuse() -> list[tuple[Message, bool]]:
        raise AssertionError("read the context")

    assert about_forgetting(_said("user: It rains", "assistant: It does"), refuse) == [False, False]
    assert about_forgetting(_said(_EXCHANGE[0]), refuse) == [True]
