"""Terms of Chinese text, which has no spaces: single characters beside character pairs."""

from __future__ import annotations

import re
from collections.abc import Callable

from .languages import CHINESE, OTHER, is_latin
from .terms import has_unspaced, pieces, runs

_HAN = "[\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]+"
_NOT_CHINESE = "[\u0e00-\u1fff\u3040-\u30ff\uac00-\ud7af]"
"""Other scripts without spaces, from Thai to kana, and Hangul: a word with these is not Chinese.

Punctuation, which lies between them, belongs to every script.
"""

_PARTICLES = frozenset("的了是我你您他她它们吗呢吧啊呀么什哪谁怎这那也又很把被些个嘛啦在")
"""Grammatical characters, which hardly ever begin or end a content word."""

_WORDS = """
什么 怎么 怎样 哪里 哪个 哪些 哪位 多少 为什 时候 一下 请问 告诉 知道 可以 应该 因为 所以 但是 如果
没有 不是 还是 或者 以及 已经 现在 之前 之后 我们 你们 他们 她们 自己 这个 那个 这些 那些 这样 那样
这里 那里 有没 是不 是否 一个 一些 谢谢 你好 您好 还有 关于
"""
_GRAMMAR = frozenset(_WORDS.split())
"""Function words of two characters: question words, pronouns and the like."""


def is_chinese(text: str) -> bool:
    """True if a text has Han characters and no other script without spaces, as Japanese has."""
    return re.search(_HAN, text) is not None and re.search(_NOT_CHINESE, text) is None


def language_of(text: str, of_latin: Callable[[str], str]) -> str:
    """Language of a text, by its script; `of_latin` tells the languages of Latin script apart."""
    if is_latin(text):
        return of_latin(text)
    return CHINESE if is_chinese(text) else OTHER


def characters(word: str) -> list[str]:
    """Han characters of a word that are not grammatical, if `pieces` yields them only in pairs.

    Many Chinese words have one character, and a question rarely has it in the same pair as a turn.
    """
    return [
        each
        for run in re.findall(_HAN, word)
        if len(run) > 1 or len(word) > 1
        for each in run
        if each not in _PARTICLES
    ]


def pieces_sought(word: str) -> list[tuple[str, ...]]:
    """Terms of a question's word, each with its alternatives.

    Of Chinese, only content between grammatical words is used. A lone character matches as itself
    and, because turns indexed earlier have only pairs, as the pairs around it.
    """
    if re.search(_NOT_CHINESE, word):
        return [(piece,) for piece in pieces(word)]
    found: list[tuple[str, ...]] = []
    for run in runs(word):
        if len(run) == 1 or not has_unspaced(run):
            found.append((run,))
            continue
        for start, end in _content_stretches(run):
            if end - start > 1:
                found += [(run[i : i + 2],) for i in range(start, end - 1)]
            else:
                around = (run[start - 1 : end] if start else "", run[start : end + 1])
                found.append((run[start], *(pair for pair in around if len(pair) == 2)))
    return found


def _content_stretches(run: str) -> list[tuple[int, int]]:
    """Start and end of each stretch of content characters in a run of Han characters."""
    grammar = [character in _PARTICLES for character in run]
    for i in range(len(run) - 1):
        if run[i : i + 2] in _GRAMMAR:
            grammar[i] = grammar[i + 1] = True
    found, start = [], 0
    for i, is_grammar in enumerate([*grammar, True]):
        if is_grammar:
            if i > start:
                found.append((start, i))
            start = i + 1
    return found
