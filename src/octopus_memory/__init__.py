"""Octopus: episodic memory for AI agents."""

from __future__ import annotations

from .aio import AsyncEpisodeInHand, AsyncEpisodicMemory, AsyncMemoryScope
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
    Conflict,
    EmbedderFailed,
    EpisodeChanged,
    EpisodeClosed,
    EpisodeNotFound,
    IdempotencyConflict,
    InvalidInput,
    InvalidMessage,
    InvalidSetting,
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
    ContextConfig,
    EmbeddingConfig,
    EpisodicRecallConfig,
    Layout,
    MemoryConfig,
    PruneStrategy,
    SessionConfig,
)
from .domain.replay import EpisodeReplay, SessionReplay
from .engine.hand import EpisodeInHand
from .engine.orchestrator import MemoryContext, MemoryOrchestrator
from .engine.pending import PendingReport
from .engine.scope import MemoryScope
from .ports.store import Backlog, StoreStats
from .wiring import EpisodicMemory

__version__ = "0.1.0"

__all__ = [
    "AsyncEpisodeInHand",
    "AsyncEpisodicMemory",
    "AsyncMemoryScope",
    "Backlog",
    "Conflict",
    "ContextConfig",
    "EmbedderFailed",
    "EmbeddingConfig",
    "EndReason",
    "Episode",
    "EpisodeChanged",
    "EpisodeClosed",
    "EpisodeInHand",
    "EpisodeNotFound",
    "EpisodeReplay",
    "EpisodeSnippet",
    "EpisodicMemory",
    "EpisodicRecallConfig",
    "IdempotencyConflict",
    "InvalidInput",
    "InvalidMessage",
    "InvalidSetting",
    "Layout",
    "MemoryClosed",
    "MemoryConfig",
    "MemoryContext",
    "MemoryOrchestrator",
    "MemoryScope",
    "Message",
    "MessageTooLarge",
    "MissingExtra",
    "ModelError",
    "NotFound",
    "OctopusError",
    "Page",
    "PendingReport",
    "PruneStrategy",
    "Role",
    "SchemaTooNew",
    "Scope",
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
