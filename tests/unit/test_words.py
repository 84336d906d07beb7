"""The word lists and patterns that are data."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from octopus_memory.words import FOLDER, listed, pattern, sections
from tests.support.paths import DOCS

FILES = sorted(FOLDER.glob("*.txt"))
PLAIN = {"given_names", "never_names", "also_words", "concepts"}


def test_a_page_tells_how_each_file_was_made() -> None:
    page = (DOCS / "reference" / "words.md").read_text("utf-8")
    files = [each for each in FOLDER.iterdir() if each.is_file() and each.suffix != ".py"]
    assert [each.name for each in files if f"`{each.name}`" not in page] == ["NOTICE"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_has_no_section_twice_and_no_space_that_an_editor_may_lose(file) -> None:
    lines = file.read_text("utf-8").splitlines()
    names = [line for line in lines if line.startswith("=== ")]
    assert len(names) == len(set(names))
    assert [line for line in lines if line != line.rstrip()] == []
    assert sections(file.stem)[""] == [] or file.stem in PLAIN


def test_a_line_may_go_on_in_the_next_and_sections_are_words_or_alternatives() -> None:
    wishes = sections("forgetting")["english wishes"]
    assert not any(wish.startswith(" ") for wish in wishes)
    assert re.search(pattern("forgetting", "english wishes"), "delete all that you know")
    assert {"forget", "vergiss", "忘"} <= listed("forgetting", "verbs")
    assert pattern("questions", "klingon overview") == ""


@pytest.mark.process
def test_the_glosses_are_loaded_for_the_built_in_model_alone() -> None:
    program = """
import sys
from octopus_memory import EpisodicMemory
from octopus_memory.adapters.embedders.hashing import HashingEmbedder
with EpisodicMemory.open("sqlite:///:memory:", embedder=HashingEmbedder()) as memory:
    scope = memory.scope(user="ana")
    scope.add("s", ("user", "Ich wohne seit letzter Woche in einer neuen Wohnung in Köln."))
    memory.flush()
    assert scope.recall_turns("Wo wohne ich?")
print("octopus_memory.adapters.embedders.gloss" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    assert done.stdout.strip() == "False"
