"""Octopus: episodic memory for AI agents."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from .domain.episode import (
    EndReason,
    Episode,
    EpisodeSnippet,
    Scope,
    Session,
    SessionStatus,
    SignalShare,
    Turn,
    TurnHit,
)
from .domain.errors import (
    AccessDenied,
    Conflict,
    EmbedderFailed,
    EpisodeArchived,
    EpisodeChanged,
    EpisodeClosed,
    EpisodeDeleted,
    EpisodeNotFound,
    FactNotFound,
    IdempotencyConflict,
    IndexUnavailable,
    InvalidInput,
    InvalidMessage,
    InvalidSetting,
    KeyDestroyed,
    KeyMissing,
    KeyUnavailable,
    LegalHold,
    MemoryClosed,
    MessageTooLarge,
    MissingExtra,
    ModelError,
    NotFound,
    OctopusError,
    SchemaTooNew,
    ScopeKeyError,
    SessionNotFound,
    SettingsChanged,
    StoreAnswerLost,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    SummarizerFailed,
    ToolResultWithoutCall,
)
from .domain.message import Message, Role, ToolCall
from .domain.policy import (
    ArchiveMode,
    ConfigSource,
    ContextConfig,
    EmbeddingConfig,
    EpisodicRecallConfig,
    EpisodicRetentionPolicy,
    Layout,
    LedgerMode,
    MemoryConfig,
    PiiMode,
    PrivacyConfig,
    PruneStrategy,
    SessionConfig,
)

if TYPE_CHECKING:
    from .aio import AsyncEpisodicMemory, AsyncMemoryTenant
    from .async_scope import AsyncEpisodeInHand, AsyncMemoryScope
    from .domain.audit import AuditCheck, AuditEntry
    from .domain.block.passages import LeftOut, LeftOutReason, Passage
    from .domain.context import MemoryContext
    from .domain.episode import Page, ScopeOverview, ScopeSearch, TenantOverview, TurnSearch
    from .domain.erasure import EraseProgress, EraseReceipt
    from .domain.facts import Fact, FactKind, FactOrigin, FactSharing
    from .domain.forget import ForgetItem, ForgetPreview, ForgetReceipt
    from .domain.ledger import EpisodeUse, EpisodeUses, Injected, InjectedKind, Injection
    from .domain.replay import EpisodeReplay, SessionReplay
    from .domain.retention import AgentRetention, Hold, RetentionCounts, RetentionReport
    from .domain.transfer.export_format import ImportReport
    from .engine.privacy.scrub import ScrubReport
    from .engine.read.context import MemoryOrchestrator
    from .engine.retention import MemoryRetentionJob
    from .engine.scope import MemoryScope
    from .engine.tenant import MemoryTenant
    from .engine.work.pending import PendingReport
    from .episode_block import EpisodeInHand
    from .integrations.clients import wrap
    from .ports.admin import StoreStats
    from .ports.recall_rows import Backlog
    from .remote import AsyncRemoteMemory, RemoteMemory, RemoteScope
    from .wiring import EpisodicMemory

__version__ = "0.1.0"

__all__ = [
    "AccessDenied",
    "AgentRetention",
    "ArchiveMode",
    "AsyncEpisodeInHand",
    "AsyncEpisodicMemory",
    "AsyncMemoryScope",
    "AsyncMemoryTenant",
    "AsyncRemoteMemory",
    "AuditCheck",
    "AuditEntry",
    "Backlog",
    "ConfigSource",
    "Conflict",
    "ContextConfig",
    "EmbedderFailed",
    "EmbeddingConfig",
    "EndReason",
    "Episode",
    "EpisodeArchived",
    "EpisodeChanged",
    "EpisodeClosed",
    "EpisodeDeleted",
    "EpisodeInHand",
    "EpisodeNotFound",
    "EpisodeReplay",
    "EpisodeSnippet",
    "EpisodeUse",
    "EpisodeUses",
    "EpisodicMemory",
    "EpisodicRecallConfig",
    "EpisodicRetentionPolicy",
    "EraseProgress",
    "EraseReceipt",
    "Fact",
    "FactKind",
    "FactNotFound",
    "FactOrigin",
    "FactSharing",
    "ForgetItem",
    "ForgetPreview",
    "ForgetReceipt",
    "Hold",
    "IdempotencyConflict",
    "ImportReport",
    "IndexUnavailable",
    "Injected",
    "InjectedKind",
    "Injection",
    "InvalidInput",
    "InvalidMessage",
    "InvalidSetting",
    "KeyDestroyed",
    "KeyMissing",
    "KeyUnavailable",
    "Layout",
    "LedgerMode",
    "LeftOut",
    "LeftOutReason",
    "LegalHold",
    "MemoryClosed",
    "MemoryConfig",
    "MemoryContext",
    "MemoryOrchestrator",
    "MemoryRetentionJob",
    "MemoryScope",
    "MemoryTenant",
    "Message",
    "MessageTooLarge",
    "MissingExtra",
    "ModelError",
    "NotFound",
    "OctopusError",
    "Page",
    "Passage",
    "PendingReport",
    "PiiMode",
    "PrivacyConfig",
    "PruneStrategy",
    "RemoteMemory",
    "RemoteScope",
    "RetentionCounts",
    "RetentionReport",
    "Role",
    "SchemaTooNew",
    "Scope",
    "ScopeKeyError",
    "ScopeOverview",
    "ScopeSearch",
    "ScrubReport",
    "Session",
    "SessionConfig",
    "SessionNotFound",
    "SessionReplay",
    "SessionStatus",
    "SettingsChanged",
    "SignalShare",
    "StoreAnswerLost",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "StoreStats",
    "StoreUnavailable",
    "SummarizerFailed",
    "TenantOverview",
    "ToolCall",
    "ToolResultWithoutCall",
    "Turn",
    "TurnHit",
    "TurnSearch",
    "wrap",
]

_LATER = {
    "aio": ("AsyncEpisodicMemory", "AsyncMemoryTenant"),
    "async_scope": ("AsyncEpisodeInHand", "AsyncMemoryScope"),
    "domain.audit": ("AuditCheck", "AuditEntry"),
    "domain.context": ("MemoryContext",),
    "domain.erasure": ("EraseProgress", "EraseReceipt"),
    "domain.episode": ("Page", "ScopeOverview", "ScopeSearch", "TenantOverview", "TurnSearch"),
    "domain.facts": ("Fact", "FactKind", "FactOrigin", "FactSharing"),
    "domain.forget": ("ForgetItem", "ForgetPreview", "ForgetReceipt"),
    "domain.ledger": ("EpisodeUse", "EpisodeUses", "Injected", "InjectedKind", "Injection"),
    "domain.block.passages": ("LeftOut", "LeftOutReason", "Passage"),
    "domain.transfer.export_format": ("ImportReport",),
    "domain.replay": ("EpisodeReplay", "SessionReplay"),
    "domain.retention": ("AgentRetention", "Hold", "RetentionCounts", "RetentionReport"),
    "episode_block": ("EpisodeInHand",),
    "engine.retention": ("MemoryRetentionJob",),
    "engine.read.context": ("MemoryOrchestrator",),
    "engine.work.pending": ("PendingReport",),
    "engine.privacy.scrub": ("ScrubReport",),
    "engine.scope": ("MemoryScope",),
    "engine.tenant": ("MemoryTenant",),
    "ports.admin": ("StoreStats",),
    "ports.recall_rows": ("Backlog",),
    "remote": ("AsyncRemoteMemory", "RemoteMemory", "RemoteScope"),
    "integrations.clients": ("wrap",),
    "wiring": ("EpisodicMemory",),
}
"""Public names that are imported lazily, by submodule. Importing a type must not import numpy."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        for home, names in _LATER.items():
            if name in names:
                value = getattr(_import_module(f".{home}", __name__), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
