"""State of a session that an export carries: where its replay begins, its message keys."""

from __future__ import annotations

import json

import pytest

from octopus_memory import EpisodicMemory, InvalidInput
from tests.support.exported_user import export, with_trailer

pytestmark = pytest.mark.both_databases


def texts(memory: EpisodicMemory, session_id: str = "s") -> list[str]:
    turns = memory.scope(tenant="acme", agent="hr", user="ana").session(session_id).turns
    return [turn.text for turn in turns]


def test_a_reset_session_stays_reset_where_it_comes_to(
    memory: EpisodicMemory, there: EpisodicMemory
):
    ana = memory.scope(tenant="acme", agent="hr", user="ana")
    ana.store([("user", "An old story.")], session_id="s")
    ana.add("s", [("user", "Before the reset."), ("assistant", "I see.")])
    ana.reset_session("s")
    ana.add("s", ("user", "After the reset."))
    before = export(memory)
    there.tenant("acme").import_user(before)
    assert texts(there) == texts(memory) == ["After the reset."]
    there.flush()
    copy = there.scope(tenant="acme", agent="hr", user="ana")
    assert "An old story." in {hit.text for hit in copy.recall_turns("old story")}
    assert export(there)[1:-1] == before[1:-1]


def test_known_keys_stay_known_where_they_come_to(memory: EpisodicMemory, there: EpisodicMemory):
    ana = memory.scope(tenant="acme", agent="hr", user="ana")
    said = [("user", "First."), ("user", "Removed."), ("user", "No key.")]
    ana.add("s", said, keys=["one", "two", None])
    ana.remove_turns("s", ids=[ana.session("s").turns[1].id])
    ana.add("other", ("user", "Elsewhere."), keys=["one"])
    for _ in range(2):
        there.tenant("acme").import_user(export(memory))
    copy = there.scope(tenant="acme", agent="hr", user="ana")
    assert copy.add("s", [*said[:2], ("user", "Third.")], keys=["one", "two", "three"])[0].text == (
        "Third."
    )
    assert copy.add("s", ("user", "Third again."), keys=["three"]) == []
    assert texts(there) == ["First.", "No key.", "Third."]
    assert copy.add("other", ("user", "Second."), keys=["two"]) != []
    # And from there to a third place, with the keys of both, under another name.
    there.tenant("acme").import_user(export(there), user="ben")
    ben = there.scope(tenant="acme", agent="hr", user="ben")
    assert ben.add("s", [("user", "x")] * 3, keys=["one", "two", "three"]) == []


def test_keys_come_back_to_the_database_that_made_them(memory: EpisodicMemory):
    ana = memory.scope(tenant="acme", agent="hr", user="ana")
    ana.add("s", [("user", "Stays."), ("user", "Goes.")], keys=["one", "two"])
    ana.remove_turns("s", last=1)
    lines = export(memory)
    ana.erase(physical=False)
    memory.tenant("acme").import_user(lines)
    assert ana.add("s", [("user", "Stays."), ("user", "Goes.")], keys=["one", "two"]) == []
    assert export(memory)[1:-1] == lines[1:-1]


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("message_keys", [], "message_keys"),
        ("message_keys", {"salts": []}, "message_keys.digests"),
        ("message_keys", {"salts": ["00"], "digests": []}, "message_keys.salts"),
        ("message_keys", {"salts": [], "digests": ["no hex"]}, "message_keys.digests"),
        ("message_keys", {"salts": [], "digests": [3]}, "message_keys.digests"),
        ("replay_from", -1, "replay_from"),
        ("replay_from", 2, "replay_from"),
        ("replay_from", "all", "replay_from"),
    ],
)
@pytest.mark.sqlite_alone
def test_a_wrong_state_is_refused_by_name(
    memory: EpisodicMemory, there: EpisodicMemory, field: str, value: object, named: str
):
    memory.scope(tenant="acme", agent="hr", user="ana").add("s", ("user", "Hi."))
    kind = "session" if field == "message_keys" else "episode"
    lines = [json.loads(line) for line in export(memory)[:-1]]
    changed = [line | {field: value} if line["kind"] == kind else line for line in lines]
    with pytest.raises(InvalidInput) as refused:
        there.tenant("acme").import_user(with_trailer(changed))
    assert refused.value.field.endswith(named)
