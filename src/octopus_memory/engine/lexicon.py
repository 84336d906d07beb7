"""What lexical search keeps of a text, looked up word by word: most words come again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import chain

from ..domain.episode import Scope
from ..domain.hashing import TermHasher, pack_digests
from ..domain.known import KnownWords
from ..domain.quick import maker
from ..domain.terms import SUMMARY_CAP, TEXT_CAP, Flag, shape_flags, word_flags
from ..ports.seams import Analyzer
from ..ports.store import Lexical

_MOST = 65_536
"""Words of all scopes together, and so many for each of them."""
_EACH = 16
_MOST_TOLD = 20_000

_FLAGS = tuple(bytes([flag]) for flag in (Flag.NUMBER, Flag.TIME, Flag.FIRST_PERSON))
"""Among a word's digests, which have four bytes, each of its flags is one of a single byte."""

_make_lexical = maker(Lexical)


class Lexicon:
    """Words to their digests in each scope, and to what they tell at a glance. Thread-safe."""

    def __init__(self, analyzer: Analyzer, hasher: Callable[[Scope], TermHasher]) -> None:
        self._analyzer = analyzer
        self._hasher = hasher
        self._known: dict[Scope, KnownWords[tuple[bytes, ...]]] = {}
        self._held = 0
        self._told = KnownWords(self._tell, most=_MOST_TOLD)

    def turn(self, scope: Scope, text: str, name: str | None) -> Lexical:
        text = text.strip()
        counts = self._counts(scope, text[:TEXT_CAP])
        flags = shape_flags(text)
        for flag in _FLAGS:
            if counts.pop(flag, 0):
                flags |= flag[0]
        speaker = self._hasher(scope).pack_words(name.casefold().split()) if name else b""
        return _make_lexical(pack_digests(counts), speaker, flags)

    def summary(self, scope: Scope, text: str) -> Lexical:
        """A summary is searched whole, where a turn's text is capped."""
        counts = self._counts(scope, text[:SUMMARY_CAP])
        for flag in _FLAGS:
            counts.pop(flag, None)
        return Lexical(terms=pack_digests(counts))

    def forget(self) -> None:
        self._drop_digests()
        self._told.clear()

    def _counts(self, scope: Scope, text: str) -> Counter[bytes]:
        known = self._known.get(scope)
        if known is None:
            known = self._known[scope] = self._begin(scope)
            self._held += _EACH
        before = len(known)
        counts = Counter(chain.from_iterable(map(known.__getitem__, text.split())))
        self._held += len(known) - before
        if self._held > _MOST:
            self._drop_digests()
        return counts

    def _drop_digests(self) -> None:
        self._known.clear()
        self._held = 0

    def _begin(self, scope: Scope) -> KnownWords[tuple[bytes, ...]]:
        digest = self._hasher(scope).digest

        def learn(word: str) -> tuple[bytes, ...]:
            terms, flags = self._told[word]
            return (*map(digest, terms), *flags)

        return KnownWords(learn, most=_MOST)

    def _tell(self, word: str) -> tuple[list[str], list[bytes]]:
        """A word's terms and flags, which are the same in every scope."""
        told = word_flags(word)
        flags = [flag for flag in _FLAGS if flag[0] & told]
        return self._analyzer.terms(word, len(word)), flags
