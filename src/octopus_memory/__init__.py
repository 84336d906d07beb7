"""Octopus: episodic memory for AI agents."""

from __future__ import annotations

from .aio import (
    AsyncEpisodeInHand,
    AsyncEpisodicMemory,
    AsyncMemoryScope,
    AsyncMemoryTenant,
    AsyncRemoteMemory,
)
from .domain.audit import AuditCheck, AuditEntry
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
from .domain.erasure import EraseReceipt
from .domain.errors import (
    AccessDenied,
    Conflict,
    EmbedderFailed,
    EpisodeArchived,
    EpisodeChanged,
    EpisodeClosed,
    EpisodeNotFound,
    IdempotencyConflict,
    IndexUnavailable,
    InvalidInput,
    InvalidMessage,
    InvalidSetting,
    LegalHold,
    MemoryClosed,
    MessageTooLarge,
    MissingExtra,
    ModelError,
    NotFound,
    OctopusError,
    SchemaTooNew,
    SessionNotFound,
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
from .domain.page import Page
from .domain.policy import (
    ArchiveMode,
    ContextConfig,
    EmbeddingConfig,
    EpisodicRecallConfig,
    EpisodicRetentionPolicy,
    Layout,
    MemoryConfig,
    PiiMode,
    PrivacyConfig,
    PruneStrategy,
    SessionConfig,
)
from .domain.portable import ImportReport
from .domain.replay import EpisodeReplay, SessionReplay
from .domain.retention import AgentRetention, RetentionCounts, RetentionReport
from .engine.hand import EpisodeInHand
from .engine.keeping.retention import MemoryRetentionJob
from .engine.orchestrator import MemoryContext, MemoryOrchestrator
from .engine.pending import PendingReport
from .engine.privacy.scrub import ScrubReport
from .engine.scope import MemoryScope
from .engine.tenant import MemoryTenant
from .ports.store import Backlog, Hold, StoreStats
from .remote import RemoteMemory, RemoteScope
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
    "Conflict",
    "ContextConfig",
    "EmbedderFailed",
    "EmbeddingConfig",
    "EndReason",
    "Episode",
    "EpisodeArchived",
    "EpisodeChanged",
    "EpisodeClosed",
    "EpisodeInHand",
    "EpisodeNotFound",
    "EpisodeReplay",
    "EpisodeSnippet",
    "EpisodicMemory",
    "EpisodicRecallConfig",
    "EpisodicRetentionPolicy",
    "EraseReceipt",
    "Hold",
    "IdempotencyConflict",
    "ImportReport",
    "IndexUnavailable",
    "InvalidInput",
    "InvalidMessage",
    "InvalidSetting",
    "Layout",
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
    "ScrubReport",
    "Session",
    "SessionConfig",
    "SessionNotFound",
    "SessionReplay",
    "SessionStatus",
    "SignalShare",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "StoreStats",
    "StoreUnavailable",
    "SummarizerFailed",
    "ToolCall",
    "ToolResultWithoutCall",
    "Turn",
    "TurnHit",
]
