"""Search for standing facts in the user's statements and short answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ....domain.block.one_line import split_sentences
from ....domain.episode import Turn
from ....domain.facts import FACT_LIMIT, MOST_FACTS_OF_EPISODE, FactKind, FoundFact, check_slot
from ....domain.message import Role
from ....domain.search.stopwords import STOPWORDS
from ....domain.search.terms import words
from .. import cues
from ..sentences import closed, plain, shorten
from .rules import DRUG, Asked, Language, Rule, clauses, gate, language

_TURN_CHARS = 4_000
_SENTENCE_CHARS = 500
_ANSWER_CHARS = 120
_TOLD_CHARS = 60
"""An answer over this size that contains "I" is searched by the rules for statements."""
_OWN_CHARS = 220
_VALUE_WORDS = 12
_VALUES = frozenset({"name", "place", "value", "what"})
_SAMPLE = 500
_SURE = 3
"""Number of stopwords that identify a language."""
_HAN = re.compile(r"[\u3400-\u9fff]")
_LETTER = re.compile(r"[^\W\d_]")
_QUOTED = re.compile(r"[\"“„«「『][^\"”“»」』]*\s[^\"”“»」』]*[\"”“»」』]")
_QUOTED_LINE = re.compile(r"(?m)^\s*>.*$")
_ASKS = re.compile(r"[?？]\W*$")
_EDGES = " \t,.;:!?…'\"“”„«»()，。；：！？、"
_TAGS = "吗呢么嘛吧"
_LONE = frozenset({"partner", "mother", "father", "boss", "mother-in-law", "father-in-law"})
_PETS = frozenset({"dog", "cat", "horse", "rabbit", "hamster", "parrot", "tortoise", "pet"})


def find_facts(turns: Sequence[Turn]) -> tuple[FoundFact, ...]:
    """Standing facts of the user, in the order of the turns.

    Of the facts of one kind and slot, the last one counts.
    """
    spoken = [turn for turn in turns if turn.role in (Role.USER, Role.ASSISTANT)]
    usual = _languages(" ".join(turn.text[:200] for turn in spoken[:30]), STOPWORDS)
    found: dict[tuple[FactKind, str], FoundFact] = {}
    before: Turn | None = None
    for turn in spoken:
        if turn.role is Role.USER:
            for name in _languages_of(turn, before, usual):
                for fact in _facts_of(turn, before, language(name)):
                    key = fact.kind, fact.slot
                    found.pop(key, None)
                    found[key] = fact
        before = turn
    return tuple(found.values())[-MOST_FACTS_OF_EPISODE:]


def _languages_of(turn: Turn, before: Turn | None, usual: Iterable[str]) -> Iterator[str]:
    """Languages whose rules are applied to a turn."""
    text = turn.text[:_SAMPLE]
    near = f"{text} {before.text[-_SAMPLE:]}" if before and len(text) <= _ANSWER_CHARS else text
    names = tuple(_languages(text, usual))
    if len(names) == 1:
        yield from names
        return
    seen = frozenset(words(near, len(near)))
    yield from (name for name in names if not gate(name).isdisjoint(seen))


def _languages(text: str, usual: Iterable[str]) -> Iterable[str]:
    """Language of a text by its stopwords; the default languages if it has too few."""
    if 3 * len(_HAN.findall(text)) > len(_LETTER.findall(text)):
        return ("chinese",)
    seen = words(text, len(text))
    counts = {name: sum(map(known.__contains__, seen)) for name, known in STOPWORDS.items()}
    best = max(counts, key=lambda name: counts[name])
    rival = max(count for name, count in counts.items() if name != best)
    return (best,) if counts[best] >= _SURE and counts[best] > rival else usual


def _facts_of(turn: Turn, before: Turn | None, known: Language) -> Iterator[FoundFact]:
    stated: set[FactKind] = set()
    context = f"{turn.text[:_TURN_CHARS]}\n{before.text[-500:] if before else ''}"
    for sentence in _sentences(turn.text, known):
        for fact in _stated(sentence, turn.ordinal, known, context):
            stated.add(fact.kind)
            yield fact
    if before is not None and before.role is Role.ASSISTANT:
        for fact in _answered(turn, before, known):
            # An answer that tells of another person may not be about the user.
            if fact.kind not in stated and FactKind.PERSON not in stated:
                yield fact


def _sentences(text: str, known: Language) -> Iterator[str]:
    """Sentences in the user's own voice, without quotations and text to work on."""
    text = _QUOTED_LINE.sub("", text[:_TURN_CHARS])
    if known.task.search(text):
        text = re.split(r"[:：\n]", text, maxsplit=1)[0]
    for line in _QUOTED.sub("…", plain(text, _TURN_CHARS)).splitlines():
        for sentence in split_sentences(line):
            if len(sentence) <= _SENTENCE_CHARS:
                yield sentence


def _stated(sentence: str, ordinal: int, known: Language, context: str) -> Iterator[FoundFact]:
    taken: list[FoundFact] = []
    asks = bool(_ASKS.search(sentence))
    starts = clauses(sentence, known)
    # The rest of the sentence is hypothetical: "If I lived in Oslo, …".
    unreal = known.unreal.search(sentence)
    real = [start for start in starts if unreal is None or start < unreal.start()]
    for rule in known.rules:
        for match in filter(None, (rule.pattern.match(sentence, start) for start in real)):
            # A statement may precede a question, but not be its end.
            if asks and match.end() >= len(sentence.rstrip(_EDGES + _TAGS)):
                continue
            if rule.near and not rule.near.search(context):
                continue
            fact = _fact(rule, match, sentence, ordinal, known, asks=asks)
            if fact is None or any(_is_same(fact, each) for each in taken):
                continue
            taken.append(fact)
            yield fact


def _is_same(fact: FoundFact, other: FoundFact) -> bool:
    """True if two rules found the same fact in one sentence; the first one counts."""
    is_slot = (fact.kind, fact.slot) == (other.kind, other.slot)
    return is_slot or (fact.kind is other.kind and fact.text == other.text)


def _fact(
    rule: Rule, match: re.Match[str], sentence: str, ordinal: int, known: Language, *, asks: bool
) -> FoundFact | None:
    groups = _groups(match, known)
    values = (value for name, value in groups.items() if name in _VALUES)
    if any(len(value.split()) > _VALUE_WORDS for value in values):
        return None
    if rule.text:
        text = _filled(rule.text, groups)
    else:
        text = match[0].strip(_EDGES) if asks or len(sentence) > _OWN_CHARS else sentence
    text = " ".join(text.split()).strip(" ,;–")
    text = closed(text[:1].upper() + text[1:]) if text else ""
    slot = check_slot(text if rule.slot == "*" else _filled(rule.slot, groups))
    # An ellipsis replaces a quotation: the rest of such a sentence tells too little.
    if not text.strip(_EDGES) or "…" in text or known.dangling.search(text):
        return None
    text = shorten(text, FACT_LIMIT)
    return FoundFact(kind=rule.kind, text=text, ordinal=ordinal, slot=slot, ends=rule.ends)


def _groups(match: re.Match[str], known: Language) -> dict[str, str]:
    """Values for the templates: the pattern's groups, and values derived from them."""
    groups = {"said": match[0].strip(_EDGES)}
    for name, value in match.groupdict().items():
        # Groups of alternatives are numbered: `what`, `what2`.
        if value and not groups.get(plain_name := name.rstrip("0123456789")):
            groups[plain_name] = value.strip(_EDGES)
    if relation := groups.get("relation", "").casefold():
        groups["Relation"] = relation[:1].upper() + relation[1:]
        groups["person"] = _person(known.relations.get(relation, relation), groups.get("name", ""))
    if what := groups.get("what"):
        drug = DRUG.search(what)
        groups["drug"] = drug[0] if drug else what
        groups["counted"] = what.split()[-1]
    if aspect := groups.get("aspect"):
        groups["aspect"] = aspect.rstrip("0123456789 ")
    if plan := groups.get("plan"):
        groups["trip"] = " ".join((plan, groups.get("place", "")))
    return groups


def _person(relation: str, name: str) -> str:
    """Slot of a person: the relation, with the name if a user may have several such."""
    if relation in _LONE or not name:
        return relation
    return name if relation in _PETS else f"{relation} {name}"


def _filled(template: str, groups: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda field: groups.get(field[1], ""), template)


def _answered(turn: Turn, before: Turn, known: Language) -> Iterator[FoundFact]:
    """Facts made of a question and its short answer."""
    answer = " ".join(plain(turn.text[:_TURN_CHARS], _TURN_CHARS).split())
    if not answer.strip(_EDGES) or len(answer) > _ANSWER_CHARS or _ASKS.search(answer):
        return
    asked = [
        sentence
        for line in plain(before.text[-_TURN_CHARS:], _TURN_CHARS).splitlines()
        for sentence in split_sentences(line)
    ][-3:]
    question = " ".join(each for each in asked if _ASKS.search(each) or cues.ASKING.search(each))
    topics = _topics(question, known)
    parts = list(split_sentences(answer))
    if len(topics) == 1:
        parts = [answer] if topics[0].kind is FactKind.CONSTRAINT else parts[:1]
    if len(parts) != len(topics):
        return
    for topic, part in zip(topics, parts, strict=True):
        value = cues.PERSON_OPENER.sub("", part).strip(_EDGES)
        is_told = len(value) > _TOLD_CHARS and cues.FIRST_PERSON.search(value)
        if not value or is_told or known.evasive.search(value) or cues.FILLER.search(value):
            continue
        yield from _answer_fact(topic, question, value, turn.ordinal, known)


def _topics(question: str, known: Language) -> list[Asked]:
    """Topics that a question asks the user about, in order."""
    found = ((asked.pattern.search(question), asked) for asked in known.asked)
    placed = [(match.start(), i, asked) for i, (match, asked) in enumerate(found) if match]
    return [asked for *_, asked in sorted(placed, key=lambda each: each[:2])]


def _answer_fact(
    topic: Asked, question: str, value: str, ordinal: int, known: Language
) -> Iterator[FoundFact]:
    kind, slot, text = topic.kind, topic.slot, f"{topic.label}: {value}"
    if other := known.other.search(question):
        relation = (other.groupdict().get("relation") or "").casefold()
        if not relation:
            return
        kind, slot = FactKind.PERSON, f"{known.relations.get(relation, relation)} {topic.slot}"
        text = f"{shorten(question, _ANSWER_CHARS)} — {value}"
    text = shorten(closed(" ".join(text.split())), FACT_LIMIT)
    yield FoundFact(kind=kind, text=text, ordinal=ordinal, slot=check_slot(slot))
