"""Validation of an agent's settings."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from octopus_memory import (
    ContextConfig,
    EmbeddingConfig,
    EpisodicRecallConfig,
    EpisodicRetentionPolicy,
    InvalidSetting,
    MemoryConfig,
    PrivacyConfig,
    SessionConfig,
)


@pytest.mark.parametrize(
    ("kind", "name", "value", "words"),
    [
        (SessionConfig, "session.idle_timeout_minutes", 1e13, "must be at most 525,600,000"),
        (SessionConfig, "session.idle_timeout_minutes", math.nan, "must be above zero"),
        (SessionConfig, "session.max_session_hours", math.inf, "must be at most 8,760,000"),
        (SessionConfig, "session.idle_timeout_minutes", "30", "must be a number, not str"),
        (SessionConfig, "session.topic_shift", "yes", "must be true or false, not str"),
        (SessionConfig, "session.max_message_bytes", 1 << 40, "must be at most"),
        (EpisodicRecallConfig, "recall.enabled", "no", "must be true or false, not str"),
        (EpisodicRecallConfig, "recall.semantic_top_k", "3", "must be a whole number, not str"),
        (EpisodicRecallConfig, "recall.semantic_top_k", 2.5, "must be a whole number, not float"),
        (EpisodicRecallConfig, "recall.semantic_top_k", 2_000_000, "must be at most 1,000,000"),
        (EpisodicRecallConfig, "recall.recent_sessions_to_inject", 5.5, "must be a whole number"),
        (EpisodicRecallConfig, "recall.min_recall_score", "0.5", "must be a number, not str"),
        (EpisodicRecallConfig, "recall.min_recall_score", math.nan, "must be at least 0"),
        (EpisodicRecallConfig, "recall.min_recall_score", 1.5, "must be at most 1"),
        (ContextConfig, "context.budget_tokens", "800", "must be a whole number, not str"),
        (ContextConfig, "context.budget_tokens", None, "must be a whole number, not NoneType"),
        (ContextConfig, "context.layout", "wide", "must be one of detailed, compact"),
        (ContextConfig, "context.prune", [], "must be one of fifo"),
        (EmbeddingConfig, "embedding.min_chars", -1, "must be at least 0"),
        (EpisodicRetentionPolicy, "retention.active_retention_days", True, "number, not bool"),
        (EpisodicRetentionPolicy, "retention.purge_grace_days", math.nan, "must be at least 0"),
        (PrivacyConfig, "privacy.pii", 5, "must be one of off, flag, redact"),
    ],
)
def test_a_wrong_value_is_refused_by_name(
    kind: Callable[..., object], name: str, value: Any, words: str
):
    part, _, field = name.partition(".")
    with pytest.raises(InvalidSetting, match=f"^{name}: .*{words}"):
        kind(**{field: value})
    with pytest.raises(InvalidSetting, match=f"^{name}: .*{words}"):
        MemoryConfig.from_dict({part: {field: value}})


def test_archive_days_count_only_where_an_archive_is_kept_and_deleted():
    with pytest.raises(
        InvalidSetting, match=r"^retention\.archive_retention_days: must not be less"
    ):
        EpisodicRetentionPolicy(active_retention_days=400)
    for unused in ("archive_on_expiry", "delete_after_archival_period"):
        given = {"active_retention_days": 400, unused: False}
        assert EpisodicRetentionPolicy(**given).active_retention_days == 400
        assert MemoryConfig.from_dict({"retention": given}).retention.archive_retention_days == 365


def test_a_part_must_be_of_its_own_kind():
    with pytest.raises(InvalidSetting, match=r"^recall: must be EpisodicRecallConfig\(\.\.\.\)"):
        MemoryConfig(recall=SessionConfig())  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting, match="^config: must be tables of settings: recall, "):
        MemoryConfig.from_dict([])  # type: ignore[arg-type]


def test_valid_settings_round_trip():
    config = MemoryConfig(
        session=SessionConfig(idle_timeout_minutes=0.5, max_session_hours=9),
        retention=EpisodicRetentionPolicy(active_retention_days=7.5, archive_mode="cold"),  # type: ignore[arg-type]
    )
    assert MemoryConfig.from_dict(config.to_dict()) == config
