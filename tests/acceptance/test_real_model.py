"""Octopus with a real chat model, where OCTOPUS_TEST_LLM_URL names an OpenAI-compatible server.

What a model answers is not known beforehand, so these tests check what holds for every answer: it
is stored as it came, and a summary or a fact never says what nobody said.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from octopus_memory import EpisodicMemory, SummarizerFailed, wrap
from octopus_memory.adapters.summarizers.grounding import Grounding
from octopus_memory.adapters.summarizers.openai import OpenAISummarizer
from tests.support.command_line import run, run_json, use_folder

URL = os.environ.get("OCTOPUS_TEST_LLM_URL", "")
MODEL = os.environ.get("OCTOPUS_TEST_LLM_MODEL", "default")
KEY = os.environ.get("OCTOPUS_TEST_LLM_KEY", "none")
log = logging.getLogger(__name__)
openai = pytest.importorskip("openai")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not URL, reason="OCTOPUS_TEST_LLM_URL names no model"),
]

TALKS = {
    "a dentist": [
        ("user", "Hi, I'm Ana. I moved to Lisbon in May. I am allergic to peanuts."),
        ("assistant", "Welcome, Ana! I will remember that."),
        ("user", "Can you find me a dentist near Rua Augusta for next Tuesday?"),
        ("assistant", "Dr. Silva has a slot on Tuesday at 10:30. Shall I book it?"),
        ("user", "Yes, please book it."),
        ("assistant", "Booked: Dr. Silva, Tuesday, 10:30."),
    ],
    "a leave": [
        ("user", "Ich heiße Jonas und brauche drei Urlaubstage im August."),
        ("assistant", "Gern. Vom 4. bis zum 6. August?"),
        ("user", "Ja, genau. Bitte trage sie ein."),
    ],
    "a greeting": [("user", "Hello."), ("assistant", "Hello, how can I help you?")],
}


@pytest.fixture
def summarizer() -> Iterator[OpenAISummarizer]:
    made = OpenAISummarizer(MODEL, base_url=URL, api_key=KEY)
    yield made
    made.close()


@pytest.mark.parametrize("talk", TALKS.values(), ids=TALKS)
def test_a_summary_says_what_was_said_or_the_extract_stays(
    tmp_path: Path, summarizer: OpenAISummarizer, talk: list[tuple[str, str]]
):
    with EpisodicMemory.open(
        f"sqlite:///{tmp_path / 'memory.db'}", embedder="hashing", background=False
    ) as memory:
        scope = memory.scope(user="ana")
        episode = scope.store(talk)
        turns = scope.get(episode.id).turns
        try:
            made = summarizer.summarize(turns, timeout=120)
        except SummarizerFailed as error:
            log.info("%s: %s", summarizer.form, error)
            assert "what nobody said" in str(error) or "answer" in str(error), error
            return
    log.info("%s: %s", summarizer.form, made)
    said = Grounding(turns, "")
    assert made.text
    assert all(map(said.supports, made.key_facts))
    assert all(said.supports(fact.text) for fact in made.facts)


def test_an_episode_closes_with_a_summary_whatever_the_model_does(
    tmp_path: Path, summarizer: OpenAISummarizer
):
    with EpisodicMemory.open(
        f"sqlite:///{tmp_path / 'memory.db'}",
        embedder="hashing",
        summarizer=summarizer,
        background=False,
    ) as memory:
        scope = memory.scope(user="ana")
        for talk in TALKS.values():
            episode = scope.store(talk)
            assert episode.summary
        memory.run_pending()
        for found in scope.episodes():
            log.info("%s: %s", found.summarized_by, found.summary)
            assert found.summary
        assert scope.recall("When is the dentist?")
        # Whoever finds it, a rule or the model, an allergy that was said is known.
        assert any("peanuts" in fact.text for fact in scope.facts())
        assert not any("penicillin" in fact.text for fact in scope.facts(history=True))


def test_a_wrapped_client_remembers(tmp_path: Path):
    with (
        EpisodicMemory.open(f"sqlite:///{tmp_path / 'memory.db'}", embedder="hashing") as memory,
        openai.OpenAI(base_url=URL, api_key=KEY) as plain,
    ):
        scope = memory.scope(user="ana")
        scope.store([("user", "I am allergic to peanuts."), ("assistant", "Noted.")])
        memory.flush()
        client = wrap(plain, scope, session_id="today")
        asked = [{"role": "user", "content": "What am I allergic to?"}]
        answer = client.chat.completions.create(model=MODEL, messages=asked, max_tokens=80)
        words = answer.choices[0].message.content
        log.info("answered: %s", words)
        assert words
        spoken = "".join(
            event.choices[0].delta.content or ""
            for event in client.chat.completions.create(
                model=MODEL,
                messages=[{"role": "user", "content": "And what should I not eat?"}],
                max_tokens=80,
                stream=True,
            )
            if event.choices
        )
        turns = [(turn.role.value, turn.text) for turn in scope.session("today").turns]
        assert turns == [
            ("user", "What am I allergic to?"),
            ("assistant", words),
            ("user", "And what should I not eat?"),
            ("assistant", spoken),
        ]
        [first, *_] = scope.injections("today")
        assert first.shown


@pytest.fixture
def _settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_folder(tmp_path, monkeypatch)
    monkeypatch.setenv("OCTOPUS_OPENAI_BASE_URL", URL)
    monkeypatch.setenv("OCTOPUS_OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OCTOPUS_CHAT_MODEL", MODEL)
    monkeypatch.setenv("OCTOPUS_SUMMARIZER", "openai")


@pytest.mark.usefixtures("_settings")
def test_octopus_chat_answers_with_the_model():
    said = run("chat", "--json", stdin="My favourite tea is Darjeeling.\n").stdout
    events = [json.loads(line) for line in said.splitlines()]
    log.info("%s", events)
    assert not [event for event in events if event.get("event") == "error"]
    recent = run("recent", "--json").stdout
    assert "Darjeeling" in recent or "Darjeeling" in run("recall", "tea").stdout


@pytest.mark.usefixtures("_settings")
def test_doctor_says_what_the_endpoint_answers():
    checks = {each["name"]: each for each in run_json("doctor")["checks"]}
    log.info("%s", checks["summarizer"])
    assert checks["chat model"]["status"] == "ok"
    assert checks["summarizer"]["status"] in {"ok", "warning"}
    assert "failed on its side" not in checks["summarizer"]["detail"]
