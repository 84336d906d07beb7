"""Measures recall and the context block on LoCoMo, LongMemEval or your own data."""

from __future__ import annotations

from .blocks import CONTEXT_SYSTEMS, ContextSystem, make_context_systems
from .context import BUDGETS, ContextRun, SystemContext, count_asked, run_context
from .context_report import context_json, context_markdown
from .datasets import BenchTurn, Conversation, Dataset, Format, Question, load_dataset
from .embedding import SharedEmbedder
from .octopus import OctopusSystem
from .relevance import RelevanceRun, run_relevance
from .report import (
    recall_json,
    recall_markdown,
    relevance_json,
    relevance_markdown,
    write_report,
)
from .run import RecallRun, SystemRun, run_recall
from .suite import SYSTEMS, make_systems, shared_embedder
from .systems import Hit, RecallSystem

__all__ = [
    "BUDGETS",
    "CONTEXT_SYSTEMS",
    "SYSTEMS",
    "BenchTurn",
    "ContextRun",
    "ContextSystem",
    "Conversation",
    "Dataset",
    "Format",
    "Hit",
    "OctopusSystem",
    "Question",
    "RecallRun",
    "RecallSystem",
    "RelevanceRun",
    "SharedEmbedder",
    "SystemContext",
    "SystemRun",
    "context_json",
    "context_markdown",
    "count_asked",
    "load_dataset",
    "make_context_systems",
    "make_systems",
    "recall_json",
    "recall_markdown",
    "relevance_json",
    "relevance_markdown",
    "run_context",
    "run_recall",
    "run_relevance",
    "shared_embedder",
    "write_report",
]
