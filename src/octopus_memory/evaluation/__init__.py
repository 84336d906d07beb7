"""Measuring recall: any system behind three methods, on LoCoMo, LongMemEval or one's own data."""

from __future__ import annotations

from .datasets import BenchTurn, Conversation, Dataset, Format, Question, load_dataset
from .embedding import SharedEmbedder
from .octopus import OctopusSystem
from .relevance import RelevanceRun, run_relevance
from .report import recall_json, recall_markdown, relevance_json, relevance_markdown, write_report
from .run import RecallRun, SystemRun, run_recall
from .suite import SYSTEMS, make_systems, shared_embedder
from .systems import Hit, RecallSystem

__all__ = [
    "SYSTEMS",
    "BenchTurn",
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
    "SystemRun",
    "load_dataset",
    "make_systems",
    "recall_json",
    "recall_markdown",
    "relevance_json",
    "relevance_markdown",
    "run_recall",
    "run_relevance",
    "shared_embedder",
    "write_report",
]
