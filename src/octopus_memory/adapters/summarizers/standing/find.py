"""Search for standing facts in the user's statements and short answers, with their dates."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta

from ....domain.block.passages import split_sentences
from ....domain.episode import Turn
from ....domain.facts import (
    FACT_LIMIT,
    MOST_FACTS_OF_EPISODE,
    FactKind,
    FoundFact,
    check_slot,
    slot_for,
    slots,
)
from ....domain.message import Role
from ....domain.search.languages import stopwords
from ....domain.search.terms import words
from ..sentences import closed, plain
from .rules import DRUG, LANGUAGES, Language, Rule, gate, language

_ISO = re.compile(r"\d{4}-\d{2}(?:-\d{2})?")
_HAN_DATE = re.compile(r"(?:(\d{4})年)?(\d{1,2})月(?:(\d{1,2})[日号])?")
_NUMBER = re.compile(r"\d+")


def resolve(said: str, today: date, known: Language) -> str:
    """Return the date as 2025-06-14 or 2025-06; an empty text if it has passed or is unclear."""
    text = " ".join(said.casefold().split())
    if iso := _ISO.search(text):
        return iso[0]
    if steps := known.relative.get(text):
        return _relative(steps, today)
    if han := _HAN_DATE.search(text):
        year, month, day = (int(part) if part else 0 for part in han.groups())
        return _dated(year, month, day, today)
    words = re.findall(r"[^\W\d_]+", text)
    months = [known.months[word] for word in words if word in known.months]
    if months:
        numbers = [int(each) for each in _NUMBER.findall(text)]
        year = next((each for each in numbers if each > 31), 0)
        day = next((each for each in numbers if each <= 31), 0)
        return _dated(year, months[0], day, today)
    days = [known.weekdays[word] for word in words if word in known.weekdays]
    if days:
        return (today + timedelta(days=(days[0] - today.weekday() - 1) % 7 + 1)).isoformat()
    year = next((int(each) for each in _NUMBER.findall(text) if int(each) > 31), 0)
    return f"{year}-12" if year >= today.year else ""


def _dated(year: int, month: int, day: int, today: date) -> str:
    """A month or a day of this year, or of the next one if it has passed."""
    try:
        first = date(year or today.year, month, day or 1)
    except ValueError:
        return ""
    if not year and (first if day else date(first.year, month, 28)) < today:
        first = first.replace(year=first.year + 1)
    if year and year < today.year:
        return ""
    return first.isoformat() if day else first.isoformat()[:7]


def _relative(steps: str, today: date) -> str:
    unit, _, count = steps.partition("+")
    if unit == "day":
        return (today + timedelta(days=int(count))).isoformat()
    if unit == "week":
        # The Sunday that ends the week, so that the plan lasts as long as the week does.
        return (today + timedelta(days=7 * int(count) + 6 - today.weekday())).isoformat()
    if unit == "month":
        months = today.year * 12 + today.month - 1 + int(count)
        return f"{months // 12}-{months % 12 + 1:02d}"
    return f"{today.year + int(count)}-12"


_TURN_CHARS = 4_000
_SENTENCE_CHARS = 500
_ANSWER_CHARS = 90
_ANSWER_WORDS = 4
_TOPIC_WORDS = 7
_SAMPLE = 500
_BEFORE = 16
"""Characters before a subject that are searched for a word that takes it."""
_SURE = 3
"""Number of stopwords that identify a language."""
_HAN = re.compile(r"[\u3400-\u9fff]")
_LETTER = re.compile(r"[^\W\d_]")
_QUOTED = re.compile(
    r"[\"“„«](?:[^\"”“»\s]*\s+){3}[^\"”“»]*[\"”“»]|[“「『\"][^”」』\"]*[\u3400-\u9fff][^”」』\"]*[”」』\"]"
)
_QUOTED_LINE = re.compile(r"(?m)^\s*>.*$")
_QUOTATION = "\N{OBJECT REPLACEMENT CHARACTER}"
"""Stands for a quotation of more than a few words, which may say anything."""
_ASKS = re.compile(r"[?？]\W*$")
_EDGES = " \t,.;:!?…'\"“”„«»()，。；：！？、"
_TAGS = "吗呢么嘛吧"
_MARK = re.compile(r"[,;:.!?…()–—，。；：！？、（）\n]\s*|\s[-–—]\s+")
_PART = re.compile(r"[.,;，。；]\s+|[，。；]")
_WISHES = frozenset(("answers", "instruction"))
_ARTICLE = re.compile(
    r"(?:aux?|à|des?|du|de l['’]|d['’]|l['’]|las?|les?|los|el|al|the|an?|kein\w*|une?)\s*\b",
    re.IGNORECASE,
)


def find_facts(turns: Sequence[Turn], before: Turn | None = None) -> tuple[FoundFact, ...]:
    """Standing facts of the user, in the order of the turns; `before` is the turn before them.

    Of the facts of one kind and slot, the last one counts.
    """
    spoken = [turn for turn in turns if turn.role in (Role.USER, Role.ASSISTANT)]
    found: dict[tuple[FactKind, str], FoundFact] = {}
    for turn in spoken:
        if turn.role is Role.USER:
            for fact in _facts_of(turn, before):
                key = fact.kind, fact.slot
                found.pop(key, None)
                found[key] = fact
        before = turn
    return tuple(found.values())[-MOST_FACTS_OF_EPISODE:]


def _facts_of(turn: Turn, before: Turn | None) -> Iterator[FoundFact]:
    text = turn.text[:_TURN_CHARS]
    if not text.strip():
        return
    for name in _languages(text, before):
        known = language(name)
        if known.task.search(text):
            continue
        stated = [fact for said in _sentences(text) for fact in _stated(said, turn, known)]
        yield from stated
        if not stated and before is not None and before.role is Role.ASSISTANT:
            yield from _answered(turn, before, known)


def _languages(text: str, before: Turn | None) -> Iterable[str]:
    """Languages whose rules are applied to a text: its own, or those that a short one may be in."""
    sample = text[:_SAMPLE]
    if 3 * len(_HAN.findall(sample)) > len(_LETTER.findall(sample)):
        return ("chinese",)
    seen = words(sample, len(sample))
    counts = {name: sum(map(known.__contains__, seen)) for name, known in stopwords().items()}
    best = max(counts, key=lambda name: counts[name])
    if counts[best] >= _SURE and all(
        count < counts[best] for name, count in counts.items() if name != best
    ):
        return (best,)
    if before is not None and len(text) <= _ANSWER_CHARS:
        seen = [*seen, *words(before.text[-_SAMPLE:], _SAMPLE)]
    return [name for name in LANGUAGES if name != "chinese" and not gate(name).isdisjoint(seen)]


def _sentences(text: str) -> Iterator[str]:
    """Sentences in the user's own voice, without quotations."""
    own = _QUOTED.sub(_QUOTATION, plain(_QUOTED_LINE.sub("", text), _TURN_CHARS))
    for line in own.splitlines():
        for sentence in split_sentences(line):
            if len(sentence) <= _SENTENCE_CHARS:
                yield sentence


def _stated(sentence: str, turn: Turn, known: Language) -> Iterator[FoundFact]:
    starts = [at for at in _clauses(sentence, known) if known.any_hint.match(sentence, at)]
    if not starts:
        return
    is_question = bool(_ASKS.search(sentence))
    end = len(sentence.rstrip(_EDGES + _TAGS))
    # The rest of the sentence is hypothetical: "If I lived in Oslo, …".
    unreal = known.unreal.search(sentence)
    real = [at for at in starts if unreal is None or at < unreal.start()]
    taken: list[tuple[str, int, int]] = []
    for rule in known.rules:
        # "Could you answer in German?" is no condition.
        places = starts if "answers" in rule.slots else real
        for match in filter(None, (rule.match(sentence, at) for at in places)):
            # A statement may precede a question, but not be its end.
            if is_question and match.end() >= end and not _WISHES.intersection(rule.slots):
                continue
            # What is left of a clause with a quotation tells too little.
            if sentence[match.start() :].find(_QUOTATION, 0, match.end() - match.start() + 2) >= 0:
                continue
            # Of two rules for one slot and the same words, the first counts.
            if any(
                slot in rule.slots and (start <= match.start() < end_ or rule.ends)
                for slot, start, end_ in taken
            ):
                continue
            facts = list(_facts(rule, match, turn, known))
            if facts:
                taken += [(slot, match.start(), match.end()) for slot in rule.slots]
                yield from facts


def _clauses(sentence: str, known: Language) -> list[int]:
    """Positions at which clauses of a sentence begin, with and without their opening words."""
    lower = sentence.lower()
    if len(lower) != len(sentence):
        # A few letters have a longer form in lower case, which would shift the positions.
        lower = sentence
    starts = {0, *(found.end() for found in _MARK.finditer(lower))}
    for start in tuple(starts):
        at = start
        while opened := known.opener.match(lower, at):
            if opened.end() <= at:
                break
            at = opened.end()
            starts.add(at)
    starts.update(found.end() for found in known.joint.finditer(lower))
    for found in known.subject.finditer(lower):
        at = found.start()
        if at not in starts and not known.before.search(lower, max(at - _BEFORE, 0), at):
            starts.add(at)
    return sorted(starts)


def _facts(rule: Rule, match: re.Match[str], turn: Turn, known: Language) -> Iterator[FoundFact]:
    groups = {
        name.rstrip("0123456789"): " ".join(value.split()).strip(_EDGES)
        for name, value in match.groupdict().items()
        if value
    }
    if "date" in groups:
        groups["date"] = resolve(groups["date"], turn.at.date(), known)
        if not groups["date"]:
            return
    if rule.topic:
        groups["topic"] = " ".join((rule.topic, groups.get("place", ""))).strip()
    if "age" in groups:
        year = turn.at.year - int(groups["age"])
        groups["v"] = str(year)
        groups["earlier"] = str(year - 1)
    slot = rule.slots[0]
    if slot == "instruction":
        groups["v"] = known.polite.sub("", groups.get("v", "")).strip(_EDGES)
        groups.setdefault("topic", _topic(groups["v"], known))
    said = closed(_capital(match[0].strip(_EDGES)))
    if rule.ends:
        for each in rule.slots:
            yield _made(each, said, groups, turn, known, ends=True)
        return
    values = [groups.get("v", "")]
    if slot in ("allergy", "avoids") and "key" not in groups:
        values = [each.strip() for each in known.split.split(groups["v"]) if each.strip()]
    for value in values:
        each_groups = groups | {"v": value}
        text = _filled(rule.text or known.texts[slot], each_groups, known)
        yield _made(slot, text, each_groups, turn, known)
        for other in rule.also_ends:
            yield _made(other, said, each_groups, turn, known, ends=True)


def _made(
    slot: str,
    text: str,
    groups: dict[str, str],
    turn: Turn,
    known: Language,
    *,
    ends: bool = False,
) -> FoundFact:
    kind, form = slots()[slot]
    value = groups.get("key") or groups.get("v", "")
    filled = form.format(
        value=_ARTICLE.sub("", value, count=1) if _ARTICLE.match(value) else value,
        person=_person(groups, known) or groups.get("topic", ""),
        topic=groups.get("topic", "") or slot_for(kind, text),
    )
    return FoundFact(
        kind=kind, text=text[:FACT_LIMIT], ordinal=turn.ordinal, slot=check_slot(filled), ends=ends
    )


def _person(groups: dict[str, str], known: Language) -> str:
    relation = groups.get("relation", "").casefold()
    return f"{known.relations.get(relation, relation)} {groups.get('name', '')}".strip()


def _filled(form: str, groups: dict[str, str], known: Language) -> str:
    """Fill a template; names that were written in lower case get a capital."""
    shown = defaultdict(str, groups)
    for name in ("name", "place"):
        if name in shown:
            shown[name] = _named(shown[name])
    shown["V"] = _capital(shown["v"])
    if form.startswith("{v}"):
        shown["v"] = _capital(shown["v"])
    if "relation" in shown:
        shown["relation"] = _capital(shown["relation"])
    if "thing" in shown:
        shown["thing"] = shown["thing"].strip()
        shown["Thing"] = _capital(shown["thing"])
    text = " ".join(form.format_map(shown).split())
    return closed(_capital(text)) if known.name != "chinese" else closed(text)


def _named(name: str) -> str:
    if name.islower():
        return " ".join(part[:1].upper() + part[1:] for part in name.split())
    return name


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _topic(said: str, known: Language) -> str:
    """What a short instruction is about; a long one has a slot of its own, made of its words."""
    if len(said.split()) > _TOPIC_WORDS:
        return ""
    return next((topic for topic, pattern in known.topics if pattern.search(said)), "")


def _answered(turn: Turn, before: Turn, known: Language) -> Iterator[FoundFact]:
    """The facts made of a question and its short answer, or of two and two."""
    if len(turn.text) > _ANSWER_CHARS or _ASKS.search(turn.text):
        return
    asked = list(split_sentences(" ".join(before.text[-_SAMPLE:].split())))
    question = asked[-1] if asked and _ASKS.search(asked[-1]) else ""
    found = sorted(
        (match.start(), slot)
        for slot, pattern in known.asked
        if (match := pattern.search(question)) is not None
    )
    parts = [part.strip(_EDGES) for part in _PART.split(" ".join(turn.text.split()))]
    parts = [part for part in parts if part]
    if len(parts) < len(found):
        return
    for (_, slot), answer in zip(found, parts, strict=False):
        if len(answer.split()) <= _ANSWER_WORDS and not known.evasive.search(answer):
            yield from _answer(slot, answer, turn, known)


def _answer(slot: str, answer: str, turn: Turn, known: Language) -> Iterator[FoundFact]:
    groups = {"v": answer, "name": answer, "place": answer}
    text = known.texts["age" if slot == "birth year" else slot]
    if slot == "birth year":
        if not answer.isdecimal() or not 10 <= int(answer) <= 99:
            return
        year = turn.at.year - int(answer)
        groups = {"v": str(year), "earlier": str(year - 1)}
    elif slot == "medication":
        drug = DRUG.search(answer)
        if drug is None:
            return
        groups = {"v": drug[0]}
    values = [groups["v"]]
    if slot == "allergy":
        values = [each.strip() for each in known.split.split(answer) if each.strip()]
    for value in values:
        each = groups | {"v": value}
        yield _made(slot, _filled(text, each, known), each, turn, known)
