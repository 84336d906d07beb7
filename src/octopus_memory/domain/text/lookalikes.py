"""Lookalike characters: the plain ASCII letter or sign that a character resembles."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

# From Unicode's table of confusables (UTS 39), for the characters of markers. Full-width,
# mathematical, circled and accented forms need no entry, because NFKD decomposes them.
# Signs that occur in no role's spelling (\u00d7, \u00a2) have none.
_LOOKALIKES = {
    "a": "\u0430\u03b1\u0251\u1d00\u237a\u13aa\ua4ee\u15c5",
    "b": "\u0432\u03b2\u0299\u044c\u0185\u13cf\u13f4\ua4d0\u15f7\u1472",
    "c": "\u0441\u1d04\u2ca5\u13df\ua4da",
    "d": "\u0501\u1d05\u13a0\u13e7\ua4d2\ua4d3\u15de\u146f\u2202",
    "e": "\u0435\u03b5\u1d07\u0454\u04bd\u212e\uab32\u13ac\ua4f0\u22ff\u2d39\u0259",
    "f": "\ua730\u03dd\u0192\uab35\ua799\ua4dd\u15b4",
    "g": "\u0261\u0262\u0581\u018d\u1d83\u13c0\u13f3\ua4d6\u050d",
    "h": "\u04bb\u043d\u029c\u0570\u13bb\u13c2\ua4e7\u157c\u2c8f",
    "i": "\u0456\u03b9\u0131\u026a\u0269\u04cf\ua647\u13a5\ua4f2\u2c93",
    "j": "\u0458\u1d0a\u03f3\u13ab\ua4d9\u148d\u05e0",
    "k": "\u043a\u03ba\u1d0b\u0138\u13e6\ua4d7\u16d5\u2c95",
    "l": "\u029f\u13de\ua4e1\u14aa\u2cd1\u05df\u07ca\u2d4f",
    "m": "\u043c\u03bc\u1d0d\u13b7\ua4df\u15f0\u16d6\u2c99\u03fb",
    "n": "\u0578\u057c\u03b7\u0274\u0438\u043f\ua4e0\u2c9b\u0273",
    "o": "\u043e\u03bf\u0585\u1d0f\u1d11\u03c3\u05e1\ua4f3\u2c9f\u10ff\u2d54\u0966\u0ae6\u0e50",
    "p": "\u0440\u03c1\u1d18\u2374\u13e2\ua4d1\u146d\u2ca3\u00fe",
    "q": "\u051b\u0563\u0566\u2d55",
    "r": "\u0433\u0280\u044f\u1d26\uab47\u13a1\u13d2\ua4e3\u1587\u2c85",
    "s": "\u0455\ua731\u01bd\u13da\u13d5\ua4e2",
    "t": "\u0442\u03c4\u1d1b\u13a2\ua4d4\u22a4\u27d9\u2ca7",
    "u": "\u057d\u03c5\u1d1c\u028b\u0446\ua4f4\u144c\u222a\u22c3\uab4e",
    "v": "\u0475\u03bd\u1d20\u13d9\ua4e6\u142f\u2228\u22c1\u2d38\u05d8",
    "w": "\u051d\u1d21\u03c9\u0461\u0561\u026f\u13b3\u13d4\ua4ea\u0448",
    "x": "\u0445\u03c7\ua4eb\u1541\u2cad\u16b7",
    "y": "\u0443\u028f\u03b3\u04af\u0263\u10e7\u1eff\u13bd\u13a9\ua4ec\u2ca9",
    "z": "\u03b6\u1d22\u13c3\ua4dc",
    "[": "\u3010\u3014\u3016\u3018\u301a\u27e6\u2045\u2772\u2997\u298b\u23a1",
    "]": "\u3011\u3015\u3017\u3019\u301b\u27e7\u2046\u2773\u2998\u298c\u23a4",
    "<": "\u2039\u3008\u27e8\u2329\u276e\u276c\u2770\u02c2\u1438\u16b2",
    ">": "\u203a\u3009\u27e9\u232a\u276f\u276d\u2771\u02c3\u1433",
    "|": "\u2223\u2502\u2503\u01c0\u4e28\u23d0\u2758\u2759\u2016\u05c0\u00a6\u0964\u16c1\u4e85",
    ":": "\u2236\ua789\u02d0\u02f8\u0589\u05c3\u0703\u0704\u16ec\u205a\u1361\u0903\u0a83",
    "-": "\u2010\u2012\u2013\u2014\u2015\u2212\u2500\u2501\u2043\u2796\u02d7\u1806\u23af\u254c"
    "\u2504\u2508\u06d4\u2cbb\u30fc\u1173\u4e00",
    "#": "\u266f\u22d5",
    "/": "\u2044\u2215\u29f8\u2571\u2afd",
    "_": "\u2581",
    "---": "\u2e3b",
    "--": "\u2e3a",
    " ": "\u2800",
}
# Capitals that resemble other letters than their lower-case forms do.
_CAPITALS = str.maketrans(
    {"\u0397": "h", "\u039d": "n", "\u03a5": "y", "\u0405": "s", "\u054f": "s", "\u03f2": "c",
     "\u03f9": "c", "\u03fa": "m", "\u0417": "z", "\ufe30": ":"}
)  # fmt: skip
# Letters in black circles and squares, and regional indicators, which spell flags.
_ALPHABETS = (0x1F150, 0x1F170, 0x1F1E6)
_IN_ORDER = {chr(first + at): chr(ord("a") + at) for first in _ALPHABETS for at in range(26)}
_PLAIN = str.maketrans(
    {odd: plain for plain, odds in _LOOKALIKES.items() for odd in odds} | _IN_ORDER
)


@lru_cache(maxsize=4096)
def plain(char: str) -> str:
    """The lower-case ASCII characters that `char` resembles, or the character itself.

    Combining marks and invisible characters become empty, and every space becomes " ".
    """
    letters = unicodedata.normalize("NFKD", char.translate(_CAPITALS)).translate(_CAPITALS)
    folded = unicodedata.normalize("NFKD", letters.casefold().translate(_PLAIN))
    kept = (c for c in folded if unicodedata.category(c) not in ("Mn", "Me", "Cf"))
    return "".join(" " if c.isspace() else c for c in kept)
