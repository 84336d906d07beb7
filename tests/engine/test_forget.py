"""`scope.forget`: what a preview finds, and what its token removes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from octopus_memory import (
    EpisodicMemory,
    FactNotFound,
    InvalidInput,
    LegalHold,
    MemoryScope,
    NotFound,
)
from octopus_memory.domain.facts import FactKind, FoundFact
from octopus_memory.domain.forget import FORGOTTEN, ForgetPreview
from octopus_memory.testing.fakes import FixedClock
from tests.support.fact_finder import FactFinder

ABOUT = "my mum's diabetes"


@pytest.fixture
def told(scope: MemoryScope) -> MemoryScope:
    """Three sessions, of which two speak of it."""
    scope.store(
        [
            ("user", "Hi! Mom was diagnosed with type 2 diabetes last week. We bought a dog."),
            ("assistant", "I am sorry about your mother's diabetes. Which kind of dog?"),
            ("user", "A poodle."),
        ],
        session_id="first",
    )
    scope.store(
        [
            ("user", "What should we cook on Sunday?"),
            ("assistant", "Does your mum still have to count sugar for her diabetes?"),
            ("user", "Yes, every day"),
            ("assistant", "Then a salad."),
        ],
        session_id="second",
    )
    scope.store([("user", "I like hiking in the Alps.")], session_id="third")
    return scope


def texts(scope: MemoryScope, session_id: str) -> list[str]:
    return [turn.text for turn in scope.session(session_id).turns]


def shown(preview: ForgetPreview) -> list[tuple[str, str]]:
    return [(item.what, item.text) for item in preview.items if item.what != "summary"]


@pytest.mark.both_databases
def test_a_preview_shows_what_goes_and_removes_nothing(told: MemoryScope) -> None:
    before = [texts(told, session) for session in ("first", "second", "third")]
    preview = told.forget(ABOUT)
    assert preview.is_clear
    assert len(preview.token) == 10
    assert shown(preview) == [
        ("sentence", "Mom was diagnosed with type 2 diabetes last week."),
        ("sentence", "I am sorry about your mother's diabetes."),
        ("turn", "Does your mum still have to count sugar for her diabetes?"),
        ("turn", "Yes, every day"),
    ]
    assert {item.what for item in preview.items} == {"sentence", "turn", "summary"}
    assert all(item.reason and item.date and item.session_id for item in preview.items)
    assert [texts(told, session) for session in ("first", "second", "third")] == before


@pytest.mark.both_databases
def test_confirming_removes_it_from_every_read(told: MemoryScope, memory: EpisodicMemory) -> None:
    receipt = told.forget(confirm=told.forget(ABOUT).token)
    assert texts(told, "first") == ["Hi! We bought a dog.", "Which kind of dog?", "A poodle."]
    assert texts(told, "second") == ["What should we cook on Sunday?", "Then a salad."]
    assert texts(told, "third") == ["I like hiking in the Alps."]
    memory.run_pending()
    for episode in told.episodes().items:
        assert "diabetes" not in f"{episode.summary} {episode.key_facts}".casefold()
    assert all("diabetes" not in hit.text for hit in told.recall_turns("mother's diabetes"))
    assert "diabetes" not in told.context("How is my mum's diabetes?").text
    assert told.recall_turns("poodle dog")[0].text
    assert receipt.removed["turns"] == receipt.removed["rewritten turns"] == 2
    assert receipt.left == {"turns": 0, "facts": 0, "ledger queries": 0}
    tenant = memory.tenant("acme")
    assert [each.id for each in tenant.receipts()] == [receipt.id]
    assert not memory.runtime.store.erasures("acme", unfinished=not receipt.is_complete)[1:]
    entry = next(each for each in tenant.audit() if each.action == "forget")
    assert entry.detail["removed"] == receipt.removed
    assert entry.subject == tenant.subject("user-17")
    assert "diabetes" not in json.dumps([each.detail for each in tenant.audit()])


def test_a_receipt_on_a_file_is_complete(told: MemoryScope) -> None:
    receipt = told.forget(confirm=told.forget(ABOUT).token)
    assert receipt.physical
    assert receipt.is_complete


def test_without_a_clear_match_it_asks(told: MemoryScope) -> None:
    told.add("fourth", ("user", "The diabetes clinic is closed."))
    told.forget(confirm=told.forget(ABOUT).token)
    preview = told.forget("my sister's diabetes")
    assert (preview.is_clear, preview.token) == (False, "")
    assert "The diabetes clinic is closed." in [item.text for item in preview.items]
    nothing = told.forget("what I said")
    assert (nothing.is_clear, nothing.items) == (False, ())
    with pytest.raises(InvalidInput):
        told.forget(confirm=preview.token)


def test_weak_matches_stay_unless_they_are_named(told: MemoryScope) -> None:
    [turn] = told.add("fourth", ("user", "I have diabetes too."))
    preview = told.forget(ABOUT)
    assert turn.id not in [item.turn_id for item in preview.items]
    assert turn.id in [item.turn_id for item in preview.related]
    named = told.forget(ABOUT, turns=[turn.id])
    assert turn.id in [item.turn_id for item in named.items]
    assert turn.id not in [item.turn_id for item in named.related]
    told.forget(confirm=named.token)
    assert texts(told, "fourth") == []
    assert "diabetes" not in " ".join(texts(told, "first"))


def test_what_is_said_after_the_preview_stays(told: MemoryScope) -> None:
    session = told.add("fourth", ("user", "Forget what I said about my mum's diabetes."))
    assert session
    preview = told.forget(ABOUT)
    told.add("fourth", ("assistant", "Shall I delete what you said about your mum's diabetes?"))
    told.add("fourth", ("user", "Yes. Mom's diabetes is nobody's business."))
    told.add("first", ("user", "My mum's diabetes is better."))
    told.forget(confirm=preview.token)
    assert texts(told, "fourth") == [
        "Shall I delete what you said about your mum's diabetes?",
        "Yes. Mom's diabetes is nobody's business.",
    ]
    assert texts(told, "first")[-1] == "My mum's diabetes is better."


def test_a_token_is_used_once_by_its_own_scope_and_in_time(
    told: MemoryScope, memory: EpisodicMemory, clock: FixedClock
) -> None:
    token = told.forget(ABOUT).token
    other = memory.scope(tenant="acme", agent="hr", user="user-18")
    other.add("s", ("user", "Hello."))
    with pytest.raises(NotFound):
        other.forget(confirm=token)
    clock.advance(hours=1, seconds=1)
    with pytest.raises(NotFound, match="expired"):
        told.forget(confirm=token)
    memory.run_pending()
    assert memory.runtime.store.prune_previews(before=clock.now()) == 0
    token = told.forget(ABOUT).token
    told.forget(confirm=token)
    with pytest.raises(NotFound):
        told.forget(confirm=token)


def test_tool_calls_and_results_lose_it(scope: MemoryScope) -> None:
    arguments = json.dumps({"note": "Her mum has diabetes. Buy milk.", "count": 2})
    call = {"id": "c1", "type": "function", "function": {"name": "note", "arguments": arguments}}
    result = {"saved": ["mother: diabetes", "milk"]}
    scope.add(
        "s",
        [
            ("user", "Note that my mum has diabetes."),
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": json.dumps(result)},
            ("assistant", "Noted."),
        ],
    )
    scope.forget(confirm=scope.forget(ABOUT).token)
    _, asked, answered, *_ = [None, *scope.session("s").turns]
    body: Any = asked.message.body
    assert json.loads(body["tool_calls"][0]["function"]["arguments"]) == {
        "note": "Buy milk.",
        "count": 2,
    }
    assert json.loads(answered.text) == {"saved": [FORGOTTEN, "milk"]}
    assert asked.message.body["tool_calls"][0]["id"] == "c1"


def test_messages_of_other_forms_lose_it(scope: MemoryScope) -> None:
    use = {"type": "tool_use", "id": "t1", "name": "find", "input": {"of": "mum's diabetes"}}
    results = [
        {"type": "tool_result", "tool_use_id": "t1", "content": "Mum has diabetes. It rains."},
        {"type": "text", "text": "My mother has diabetes."},
    ]
    scope.add("s", [("user", "Look it up."), {"role": "assistant", "content": [use]}])
    scope.add("s", {"role": "user", "content": results})
    scope.forget(confirm=scope.forget(ABOUT).token)
    replay = scope.session("s")
    for form in ("openai", "anthropic", "responses", "gemini"):
        told = json.dumps(replay.messages(form=form))
        assert "diabetes" not in told
        assert "It rains." in told
    assert "diabetes" not in json.dumps([dict(turn.message.body) for turn in replay.turns])


def test_parts_of_a_message_lose_it(scope: MemoryScope) -> None:
    parts = [
        {"type": "text", "text": "Look at this. My mum has diabetes."},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
    scope.add("s", {"role": "user", "content": parts})
    scope.forget(confirm=scope.forget(ABOUT).token)
    [turn] = scope.session("s").turns
    assert turn.message.content == [{"type": "text", "text": "Look at this."}, parts[1]]


def test_facts_go_with_their_history(memory: EpisodicMemory, scope: MemoryScope) -> None:
    finder = memory.runtime.extractive = FactFinder()
    for text in ("Mother has prediabetes.", "Mother is ill: diabetes."):
        finder.also = [FoundFact(kind=FactKind.PERSON, slot="mother", text=text, ordinal=0)]
        scope.store([("user", f"We talked. {text}")])
    finder.also = []
    given = scope.add_fact("Mother's diabetes is treated by Dr. Wu.", kind="person")
    kept = scope.add_fact("Has a poodle.", kind="person")
    preview = scope.forget(ABOUT)
    facts = [item for item in preview.items if item.what == "fact"]
    assert [item.text for item in facts] == [
        "Mother has prediabetes.",
        "Mother is ill: diabetes.",
        given.text,
    ]
    receipt = scope.forget(confirm=preview.token)
    assert receipt.removed["facts"] == 3
    assert [fact.id for fact in scope.facts(history=True) if not fact.is_deleted] == [kept.id]


def test_a_fact_is_about_its_kind(scope: MemoryScope) -> None:
    scope.add_fact("Is called Jo.", kind="name")
    kept = scope.add_fact("Has a poodle.", kind="person")
    scope.forget(confirm=scope.forget("my name").token)
    assert [fact.id for fact in scope.facts()] == [kept.id]


def test_an_older_value_does_not_become_current(scope: MemoryScope) -> None:
    scope.add_fact("Lives in Paris.", kind="home")
    scope.add_fact("Lives in London.", kind="home")
    preview = scope.forget("London")
    assert {item.text for item in preview.items} == {"Lives in Paris.", "Lives in London."}
    scope.forget(confirm=preview.token)
    assert scope.facts() == []


def test_archived_and_deleted_episodes_lose_it(memory: EpisodicMemory, scope: MemoryScope) -> None:
    store = memory.runtime.store
    said = [("user", "My mum has diabetes. It rains.")]
    cold, cleared, deleted = (
        scope.store(said, session_id=name) for name in ("cold", "cleared", "deleted")
    )
    store.archive(scope.scope, cold.id, cold=True)
    store.archive(scope.scope, cleared.id, cold=False)
    scope.delete(deleted.id)
    scope.forget(confirm=scope.forget(ABOUT).token)
    scope.restore(cold.id)
    scope.restore(deleted.id)
    assert texts(scope, "cold") == texts(scope, "deleted") == ["It rains."]
    for episode in scope.episodes().items:
        assert "diabetes" not in f"{episode.summary} {episode.key_facts}"
    assert scope.get(cleared.id).episode.summary in ("", None)


def test_a_summary_that_a_caller_wrote_loses_it(scope: MemoryScope) -> None:
    episode = scope.store(
        [("user", "How is the weather?")],
        summary="They spoke of the weather. The user's mum has diabetes.",
        key_facts=["Mother: diabetes", "Likes sun"],
    )
    preview = scope.forget(ABOUT)
    assert [item.what for item in preview.items] == ["summary"]
    receipt = scope.forget(confirm=preview.token)
    found = scope.get(episode.id).episode
    assert found.summary == "They spoke of the weather."
    assert found.key_facts == ("Likes sun",)
    assert receipt.removed["summaries"] == 1


def test_the_ledger_is_cleaned(memory: EpisodicMemory, told: MemoryScope) -> None:
    memory.configure("hr", {"context": {"ledger": "full"}}, tenant="acme")
    told.add("asking", ("user", "Hello."))
    told.context("How is my mum's diabetes?", session_id="asking")
    told.context("Please forget my mum's diabetes.", session_id="asking")
    [asked, wish] = told.injections("asking")
    assert asked.query
    assert wish.query is None
    receipt = told.forget(confirm=told.forget(ABOUT).token)
    assert receipt.removed["ledger queries"] == 1
    assert receipt.removed["ledger items"] > 0
    assert [each.query for each in told.injections("asking")] == [None, None]


def test_a_hold_stops_it_and_the_refusal_is_recorded(
    told: MemoryScope, memory: EpisodicMemory
) -> None:
    tenant = memory.tenant("acme")
    token = told.forget(ABOUT).token
    held = tenant.hold(user="user-17", reason="a lawsuit")
    with pytest.raises(LegalHold):
        told.forget(confirm=token)
    assert "diabetes" in " ".join(texts(told, "first"))
    refused = [each for each in tenant.audit() if each.action == "forget"]
    assert [each.outcome for each in refused] == ["LegalHold"]
    tenant.lift(held)
    assert told.forget(confirm=token).removed["turns"] == 2


def test_items_are_chosen_by_their_ids(told: MemoryScope) -> None:
    fact = told.add_fact("Has a poodle.", kind="person")
    turn = told.session("third").turns[0]
    preview = told.forget(turns=[turn], facts=[fact])
    assert sorted(shown(preview)) == [("fact", fact.text), ("turn", turn.text)]
    told.forget(confirm=preview.token)
    assert texts(told, "third") == []
    assert told.facts() == []


def test_bad_input_is_refused(told: MemoryScope, memory: EpisodicMemory) -> None:
    stranger = memory.scope(tenant="acme", agent="hr", user="user-18")
    stranger.add("s", ("user", "Hello."))
    turn, fact = told.session("third").turns[0], told.add_fact("Has a poodle.")
    for error, given in (
        (InvalidInput, {}),
        (InvalidInput, {"about": " "}),
        (InvalidInput, {"about": "x" * 501}),
        (InvalidInput, {"about": ABOUT, "confirm": "x"}),
        (NotFound, {"turns": ["no id"]}),
    ):
        with pytest.raises(error):
            told.forget(**given)  # type: ignore[call-overload]
    with pytest.raises(NotFound):
        stranger.forget(turns=[turn])
    with pytest.raises(FactNotFound):
        stranger.forget(facts=[fact])
    assert not stranger.forget(ABOUT).is_clear
    assert not memory.scope(user="nobody").forget(ABOUT).is_clear


def test_a_wish_and_its_answer_are_never_recalled(scope: MemoryScope) -> None:
    scope.add("s", ("user", "Forget what I told you about my mum's diabetes."))
    scope.add("s", ("assistant", "I found three messages about diabetes. Shall I delete them?"))
    scope.add("s", ("user", "Yes, please"))
    scope.add("s", ("assistant", "I deleted all that was said about your mother's diabetes."))
    scope.add("s", ("user", "Now book a table for two."))
    scope.close_session("s")
    assert len(scope.session("s").turns) == 5
    assert "diabetes" not in scope.context("What about my mum's diabetes?").text
    [episode] = scope.episodes().items
    assert "diabetes" not in f"{episode.summary} {episode.key_facts}"
    assert scope.facts() == []
    assert scope.recall_turns("a table for two")[0].text == "Now book a table for two."


def test_later_blocks_do_not_quote_it(memory: EpisodicMemory, told: MemoryScope) -> None:
    """As an agent does it: the wish, the question, the user's yes, the answer."""
    questions = ["How is my mum's diabetes?", "What did I say about my mother?", "Who is ill?"]
    assert all("diabetes" in told.context(each).text for each in questions[:2])
    told.add("now", ("user", "Please forget what I said about my mum's diabetes."))
    preview = told.forget("what I said about my mum's diabetes")
    told.add("now", ("assistant", "Shall I remove 4 messages about your mum's diabetes?"))
    told.add("now", ("user", "Yes"))
    told.forget(confirm=preview.token)
    told.add("now", ("assistant", "I removed all about your mother's diabetes."))
    told.close_session("now")
    memory.run_pending()
    assert all("diabetes" not in told.context(each).text for each in questions)


def test_neighbours_of_what_goes_are_embedded_again(
    memory: EpisodicMemory, scope: MemoryScope
) -> None:
    """A short turn is embedded with the one before it, so its old vector holds the words."""
    scope.add("s", [("user", "My mum has diabetes."), ("assistant", "I see. Two of them?")])
    memory.flush()
    before = memory.runtime.store.recall_rows(scope.scope, after=0)[1]
    scope.forget(confirm=scope.forget(ABOUT).token)
    memory.flush()
    [after] = memory.runtime.store.recall_rows(scope.scope, after=0)[1]
    assert after.vector is not None
    assert after.vector not in [row.vector for row in before]
