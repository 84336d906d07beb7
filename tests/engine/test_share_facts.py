"""Facts of one user across agents: only as far as the tenant's settings say."""

from __future__ import annotations

import pytest

from octopus_memory import EpisodicMemory, FactNotFound, InvalidSetting, MemoryScope, PrivacyConfig
from tests.support import rest_server
from tests.support.command_line import run, use_folder

ALLERGY = "Is allergic to peanuts."


@pytest.fixture
def hr(memory: EpisodicMemory) -> MemoryScope:
    scope = memory.scope(tenant="acme", agent="hr", user="ana")
    scope.add_fact(ALLERGY, kind="constraint")
    scope.add_fact("Works at Acme.", kind="work")
    return scope


@pytest.fixture
def travel(memory: EpisodicMemory) -> MemoryScope:
    return memory.scope(tenant="acme", agent="travel", user="ana")


def known(scope: MemoryScope) -> set[str]:
    return {fact.text for fact in scope.context("What do you know about me?").facts}


@pytest.mark.both_databases
def test_nothing_is_shared_unless_the_tenant_says_so(
    memory: EpisodicMemory, hr: MemoryScope, travel: MemoryScope
) -> None:
    tenant = memory.tenant("acme")
    assert tenant.shared_facts() is None
    assert known(travel) == set()
    shared = tenant.share_facts(kinds=["constraint"], agents=["hr", "travel"], actor="ops")
    assert tenant.shared_facts() == shared
    assert known(travel) == {ALLERGY}
    assert ALLERGY in travel.context("What may I eat?").text
    assert travel.facts() == []
    [entry] = [each for each in tenant.audit() if each.action == "share_facts"]
    assert entry.actor == "ops"
    assert entry.detail == {"kinds": ["constraint"], "agents": ["hr", "travel"]}
    tenant.stop_sharing_facts(actor="ops")
    assert known(travel) == set()
    assert ALLERGY in known(hr)


def test_nobody_else_sees_them(memory: EpisodicMemory, hr: MemoryScope) -> None:
    memory.tenant("acme").share_facts(kinds=["constraint"], agents=["hr", "travel"])
    memory.tenant("other").share_facts(kinds=["constraint"], agents=["hr", "travel"])
    for names in (
        {"tenant": "acme", "agent": "it", "user": "ana"},
        {"tenant": "acme", "agent": "travel", "user": "ben"},
        {"tenant": "other", "agent": "travel", "user": "ana"},
    ):
        assert known(memory.scope(**names)) == set()
    assert ALLERGY in known(hr)


def test_the_newest_value_counts_whoever_was_told(
    memory: EpisodicMemory, hr: MemoryScope, travel: MemoryScope
) -> None:
    memory.tenant("acme").share_facts(kinds=["home", "work"], agents=["hr", "travel"])
    hr.add_fact("Lives in Paris.", kind="home")
    assert known(travel) == {"Lives in Paris.", "Works at Acme."}
    travel.add_fact("Lives in London.", kind="home")
    assert known(travel) == {"Lives in London.", "Works at Acme."}
    assert "Lives in Paris." not in known(hr)


@pytest.mark.both_databases
def test_what_is_erased_or_deleted_is_gone_everywhere_at_once(
    memory: EpisodicMemory, hr: MemoryScope, travel: MemoryScope
) -> None:
    tenant = memory.tenant("acme")
    tenant.share_facts(kinds=["constraint", "work"], agents=["hr", "travel"])
    assert known(travel) == {ALLERGY, "Works at Acme."}
    allergy = next(fact for fact in hr.facts() if fact.text == ALLERGY)
    with pytest.raises(FactNotFound):
        travel.delete_fact(allergy)
    hr.forget(confirm=hr.forget("peanuts").token)
    assert known(travel) == {"Works at Acme."}
    tenant.erase_user("ana", agent="hr")
    assert known(travel) == set()


def test_forgetting_shows_what_another_agent_shares(
    memory: EpisodicMemory, hr: MemoryScope, travel: MemoryScope
) -> None:
    memory.tenant("acme").share_facts(kinds=["constraint"], agents=["hr", "travel"])
    travel.add("s", ("user", "I cannot eat peanuts."))
    preview = travel.forget("peanuts")
    assert [item.text for item in preview.items] == ["I cannot eat peanuts."]
    [other] = [item for item in preview.related if item.text == ALLERGY]
    assert other.fact_id is None
    assert "another agent" in other.reason
    travel.forget(confirm=preview.token)
    assert ALLERGY in known(hr)


def test_the_agents_own_privacy_applies(
    memory: EpisodicMemory, hr: MemoryScope, travel: MemoryScope
) -> None:
    memory.tenant("acme").share_facts(kinds=["other"], agents=["hr", "travel"])
    hr.add_fact("Writes from ana@example.com.")
    memory.configure("travel", PrivacyConfig(pii="redact"), tenant="acme")  # type: ignore[arg-type]
    assert known(travel) == {"Writes from [EMAIL]."}


def test_a_shared_fact_has_no_source(
    memory: EpisodicMemory, hr: MemoryScope, travel: MemoryScope
) -> None:
    memory.tenant("acme").share_facts(kinds=["constraint"], agents=["hr", "travel"])
    hr.store([("user", "I am allergic to shellfish.")])
    for fact in travel.context("What may I eat?", session_id="s").facts:
        assert (fact.episode_id, fact.turn_id, fact.ordinal) == (None, None, None)


@pytest.mark.parametrize(
    ("kinds", "agents"),
    [
        ([], ["a", "b"]),
        (["nonsense"], ["a", "b"]),
        (["name"], ["a"]),
        (["name"], ["a", "a"]),
        ("name", ["a", "b"]),
        (["name"], "ab"),
    ],
)
def test_wrong_settings_are_refused(
    memory: EpisodicMemory, kinds: list[str], agents: list[str]
) -> None:
    with pytest.raises((InvalidSetting, ValueError)):
        memory.tenant("acme").share_facts(kinds=kinds, agents=agents)
    assert memory.tenant("acme").shared_facts() is None


def test_other_settings_do_not_see_it(memory: EpisodicMemory, hr: MemoryScope) -> None:
    memory.tenant("acme").share_facts(kinds=["name"], agents=["hr", "travel"])
    assert memory.configured_agents() == []
    memory.configure("hr", {"recall": {"semantic_top_k": 5}}, tenant="acme")
    assert memory.configured_agents() == [("acme", "hr")]
    assert memory.run_retention().complete
    assert hr.facts()


def test_over_rest(memory: EpisodicMemory) -> None:
    with rest_server.http_client(memory) as client:
        assert client.get("/share-facts").json() == {"kinds": [], "agents": []}
        body = {"kinds": ["constraint"], "agents": ["hr", "travel"]}
        assert client.put("/share-facts", json=body).json() == body
        assert client.get("/share-facts").json() == body
        one = client.put("/share-facts", json={"kinds": ["name"], "agents": ["hr"]})
        assert one.status_code == 422
        assert client.put("/share-facts", json={}).json() == {"kinds": [], "agents": []}
        assert memory.tenant().shared_facts() is None


def test_on_the_command_line(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    use_folder(tmp_path, monkeypatch)  # type: ignore[arg-type]
    EpisodicMemory.open("sqlite:///memory.db", background=False).close()
    command = ("config", "share-facts")
    assert "No agent" in run(*command).stdout
    shared = run(*command, "--kind", "constraint", "--agent", "hr", "--agent", "travel").stdout
    assert "hr, travel share: constraint." in shared
    assert shared == run(*command).stdout
    assert "No agent" in run(*command, "--off").stdout
    run(*command, "--off", "--kind", "name", code=2)
