"""Names of tenants, agents and users that look alike."""

from __future__ import annotations

ALIKE = [
    "ana",
    "Ana",
    "ANA",
    "an\u00e1",
    "ana\u0301",
    "\u0430na",  # Cyrillic
    "ana ",
    " ana",
    "ana\t",
    "ana\n",
    "ana\u200b",
    "ana\ufeff",
    "ana\x00",
    "ana\x00b",
    "\x00ana",
    "an%",
    "an_",
    "%",
    "_",
    "an?",
    "an*",
    "an[a]",
    "an'a",
    "an''a",
    'an"a',
    "an`a",
    "ana;--",
    "an\\a",
    "an\\\\a",
    "an/a",
    "1",
    "01",
    "1.0",
    "1e0",
    "None",
    "NULL",
    "null",
    "stra\u00dfe",
    "strasse",
    "STRASSE",
    "\ufb01x",
    "fix",
    "i",
    "I",
    "\u0131",
    "\u0130",
    "\u00c5",
    "\u212b",
    "A\u030a",
    "\U0001f600",
    "\U0001f600\ufe0f",
]
LONG_NAMES = ["x" * 254, "x" * 255, "x" * 255 + "y", "x" * 255 + "Y"]
LONG_TENANTS = ["x" * 99, "x" * 99 + "y", "x" * 99 + "Y"]
# Concatenated without a separator, these are equal.
JOINED = [("a", "b", "cd"), ("a", "bc", "d"), ("ab", "c", "d"), ("b", "a", "cd"), ("a", "cd", "b")]
WHO = [
    *JOINED,
    *(("acme", "hr", user) for user in ALIKE + LONG_NAMES),
    *(("acme", agent, "u") for agent in ALIKE[::5] + LONG_NAMES),
    *((tenant, "hr", "u") for tenant in ALIKE[1::5] + LONG_TENANTS),
]
# PostgreSQL's text holds no NUL: it is escaped there.
FEW = ["ana", "Ana", "ana ", "ana\x00", "ana\x00b", "ana\x1a0", "an%"]
WHO_ON = {
    "sqlite": WHO,
    "postgresql": [
        *JOINED[:2],
        *(("acme", "hr", user) for user in FEW + LONG_NAMES[2:]),
        *(("acme", agent, "u") for agent in FEW[3:5]),
        *((tenant, "hr", "u") for tenant in FEW[2:4] + LONG_TENANTS[1:]),
    ],
}
Who = tuple[str, str, str]
