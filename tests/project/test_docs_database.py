"""The pages about the database and the design's terms name what there is."""

from __future__ import annotations

import dataclasses
import re

import pytest
import sqlalchemy as sa

import octopus_memory
from octopus_memory import EndReason, MemoryConfig, MemoryScope, MemoryTenant
from octopus_memory.adapters.stores.sql import schema, views
from octopus_memory.adapters.stores.sql.migrate import VERSION_TABLE
from tests.support.paths import DOCS

PAGES = DOCS / "reference"
DATABASE = (PAGES / "database.md").read_text()
TERMS = (PAGES / "terms-of-the-design.md").read_text()
DESIGN = re.findall(
    r"\w+",
    """
    AddMessageAsync AgentComposite AgentId ArchiveOnExpiry ArchiveRetentionDays ActiveRetentionDays
    CancellationToken CloseEpisodeAsync CreatedAt Date DeleteAfterArchivalPeriod EmbeddingRef
    Enabled EndReason EndedAt Episode EpisodeEntity EpisodeId EpisodeMessage EpisodeSnippet
    EpisodicMemoryService EpisodicRecallConfig EpisodicRetentionPolicy EraseUserDataAsync
    FormatEpisodeContext GetBySessionAsync HasQueryFilter IEpisodicMemoryStore
    IX_Episodes_Session IX_Episodes_User_Agent Id IsArchived MemoryConfig MemoryOrchestrator
    MemoryRetentionJob MessageCount Messages MessagesJson MinRecallScore OctopusDbContext
    Octopus_Conversations Octopus_Episodes OpenEpisodeAsync RecallRecentAsync
    RecentSessionsToInject RelevanceScore Role SearchAsync SemanticTopK SessionId SqlServerPlugin
    SqlServerStorage StartedAt StoreAsync Summary SummaryEmbedding TenantId Timestamp TokenCount
    ToolCalls ToolCallsJson TotalInputTokens TotalOutputTokens UseSessionSummaries UserClosed
    AgentClosed Timeout UserId arguments durationMs functionName isError result toolCallId topK
""",
)


def _listed() -> dict[str, set[str]]:
    rows = re.findall(r"^\| `(octopus_\w+)` \| ((?:`\w+`(?:, )?)+) \|$", DATABASE, re.MULTILINE)
    return {table: set(re.findall(r"`(\w+)`", columns)) for table, columns in rows}


def test_every_column_is_listed():
    made = {name: {c.name for c in table.c} for name, table in schema.metadata.tables.items()}
    assert _listed() == made | {VERSION_TABLE: {"version_num"}}


def test_every_column_of_the_view_is_listed():
    columns = re.findall(r" AS (\w+),?$", views.definition("sqlite"), re.MULTILINE)
    assert len(columns) == 16
    assert not [name for name in columns if f"`{name}`" not in DATABASE]


@pytest.mark.parametrize("term", DESIGN)
def test_every_term_of_the_design_is_mapped(term: str):
    assert re.search(rf"(?<!\w){term}(?!\w)", TERMS)


def test_every_target_of_a_design_term_exists():
    for table, column in re.findall(r"`(octopus_[a-z_]+)\.([a-z_]+)`", TERMS):
        assert column in schema.metadata.tables[table].c, (table, column)
    config = {
        f"{part.name}.{field.name}"
        for part in dataclasses.fields(MemoryConfig)
        for field in dataclasses.fields(getattr(MemoryConfig(), part.name))
    }
    named = re.findall(r"`((?:recall|retention)\.[a-z_]+)`", TERMS)
    assert len(named) == 9
    assert set(named) <= config
    for call in re.findall(r"scope\.([a-z_]+)\(", TERMS):
        assert hasattr(MemoryScope, call)
    for call in re.findall(r"\)\.([a-z_]+)\(user", TERMS):
        assert hasattr(MemoryTenant, call)
    indexes = {
        each.name
        for table in schema.metadata.tables.values()
        for each in (*table.indexes, *table.constraints)
        if isinstance(each, sa.Index | sa.UniqueConstraint)
    }
    wanted = {"octopus_scopes_who", "octopus_episodes_newest", "octopus_episodes_session"}
    assert wanted <= indexes
    assert all(f"`{name}`" in TERMS for name in (*wanted, *EndReason))
    assert all(hasattr(octopus_memory, name) for name in ("EpisodeSnippet", "MemoryRetentionJob"))
