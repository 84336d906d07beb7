"""What is marked for both databases can be run on a SQL Server, too."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from octopus_memory.testing import StoreSuite
from tests.support import sqlserver_server
from tests.support.paths import ROOT

MARKED = "tests/engine/test_privacy.py"


def run(*arguments: str, url: str = "") -> str:
    """The output of pytest where a server is named, or none."""
    settings = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, MARKED],
        cwd=ROOT,
        env=settings | {sqlserver_server.VARIABLE: url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout


@pytest.mark.process
def test_without_a_server_marked_tests_are_skipped_with_a_reason():
    said = run("-k", "sqlserver")
    assert " skipped" in said
    assert f"{sqlserver_server.VARIABLE} names no server" in said
    assert not {"passed", "failed", "error"}.intersection(said.split())


@pytest.mark.process
def test_the_server_that_is_named_is_asked():
    """Nobody answers at this address: the tests are no longer skipped, they fail."""
    pytest.importorskip("mssql_python", reason="needs the extra sqlserver")
    said = run("-x", "-k", "sqlserver", url="sqlserver://sa:secret@127.0.0.1:1/master")
    assert "names no server" not in said
    assert "error" in said


def test_tests_that_need_an_order_of_ids_are_there():
    """A test that is renamed must not run where it cannot pass."""
    text = (ROOT / "tests/stores/test_sqlserver_store.py").read_text(encoding="utf-8")
    named = text.partition("BY_ID = (")[2].partition(")")[0].replace('"', "").split(",")
    names = [name.strip() for name in named if name.strip()]
    assert names
    assert all(hasattr(StoreSuite, name) for name in names)
