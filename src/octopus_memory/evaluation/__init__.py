"""Measures recall, the block, answers and facts on LoCoMo, LongMemEval or your own data."""

from __future__ import annotations

from .answers import Given, Record, describe, make_records, parse_budgets, sample
from .answers_report import AnswerRun, answers_json, answers_markdown, read_answer_run
from .blocks import make_context_systems
from .context import ContextRun, count_asked, run_context
from .context_report import context_json, context_markdown
from .datasets import Conversation, Dataset, Format, Question, load_dataset
from .facts import facts_in, facts_json, facts_markdown, measure_facts
from .models import answer_all, judge_all
from .report import (
    recall_json,
    recall_markdown,
    relevance_json,
    relevance_markdown,
    write_report,
)
from .run import RecallRun, RelevanceRun, run_recall, run_relevance
from .sheets import (
    MEMORIES,
    Answer,
    judge_sheet,
    look_up,
    read_records,
    write_sheets,
)
from .suite import make_systems, shared_embedder
from .systems import Hit

__all__ = [
    "MEMORIES",
    "Answer",
    "AnswerRun",
    "ContextRun",
    "Conversation",
    "Dataset",
    "Format",
    "Given",
    "Hit",
    "Question",
    "RecallRun",
    "Record",
    "RelevanceRun",
    "answer_all",
    "answers_json",
    "answers_markdown",
    "context_json",
    "context_markdown",
    "count_asked",
    "describe",
    "facts_in",
    "facts_json",
    "facts_markdown",
    "judge_all",
    "judge_sheet",
    "load_dataset",
    "look_up",
    "make_context_systems",
    "make_records",
    "make_systems",
    "measure_facts",
    "parse_budgets",
    "read_answer_run",
    "read_records",
    "recall_json",
    "recall_markdown",
    "relevance_json",
    "relevance_markdown",
    "run_context",
    "run_recall",
    "run_relevance",
    "sample",
    "shared_embedder",
    "write_report",
    "write_sheets",
]
