"""A history that is too long, pruned by a summary of the model that is configured."""

from __future__ import annotations

from pathlib import Path

import pytest

from octopus_memory import ContextConfig, EpisodicMemory, MemoryConfig, PrivacyConfig
from octopus_memory.testing import FakeSummarizer

SETTINGS = ContextConfig(
    prune="summarize",  # type: ignore[arg-type]
    max_working_memory_tokens=500,
    output_reserve=0,
    min_history_turns=1,
)
TALK = [
    (role, f"Sentence {number} about the house by the lake. " * 6)
    for number in range(8)
    for role in ("user", "assistant")
]


def told(memory: EpisodicMemory, history: list[tuple[str, str]] = TALK) -> str:
    context = memory.scope(user="ana").context("And now?", history=history)
    assert context.dropped > 0
    [summary] = [m["content"] for m in context.messages if m["role"] == "system"]
    assert "[Earlier in this conversation]" in summary
    return str(summary)


def opened(tmp_path: Path, model: FakeSummarizer, config: MemoryConfig) -> EpisodicMemory:
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    return EpisodicMemory.open(
        url, embedder="hashing", summarizer=model, config=config, background=False
    )


def test_the_configured_model_summarizes_pruned_messages(tmp_path: Path):
    model = FakeSummarizer("They spoke of a house by a lake.")
    with opened(tmp_path, model, MemoryConfig(context=SETTINGS)) as memory:
        assert "They spoke of a house by a lake." in told(memory)
        assert len(model.asked) == 1


@pytest.mark.parametrize("error", [None, RuntimeError("a bug of an adapter")])
def test_an_extract_replaces_a_failed_models_summary(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Exception | None
):
    model = FakeSummarizer("They spoke of a house by a lake.")
    model.fail(1, error)
    with opened(tmp_path, model, MemoryConfig(context=SETTINGS)) as memory:
        assert "Sentence" in told(memory)
    assert "pruning by an extract" in caplog.text
    assert "a bug of" not in caplog.text


def test_the_model_gets_redacted_text(tmp_path: Path):
    model = FakeSummarizer("They wrote letters.")
    private = MemoryConfig(
        context=SETTINGS,
        privacy=PrivacyConfig(pii="redact"),  # type: ignore[arg-type]
    )
    with opened(tmp_path, model, private) as memory:
        told(memory, [("user", "Write to ana@example.com today."), *TALK])
    [turns] = model.asked
    assert "[EMAIL]" in turns[0].text
    assert not any("ana@example.com" in turn.text for turn in turns)
