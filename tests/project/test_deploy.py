"""What `deploy/` and the guides set up: who Octopus is to the database, who can read a backup."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from octopus_memory import EpisodicMemory
from tests.support.command_line import run_json, use_folder
from tests.support.paths import ROOT
from tests.support.postgres_installation import Database
from tests.support.postgres_server import LocalServer, Programs, connected

DEPLOY = ROOT / "deploy"
OWNER, APP = "owner-password", "app-password"


@pytest.fixture
def server(postgres_programs: Programs) -> Iterator[LocalServer]:
    made = LocalServer(postgres_programs, scram_iterations="1")
    try:
        yield made
    finally:
        made.close()


def psql(programs: Programs, url: str, file: Path, folder: Path, **given: str) -> None:
    done = subprocess.run(
        [programs.bin / "psql", "--no-psqlrc", "--set=ON_ERROR_STOP=1", f"--file={file}", url],
        env=programs.environment(folder) | given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.process
def test_the_roles_of_the_compose_file(
    postgres_programs: Programs,
    server: LocalServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    """Its files are run in its order: roles, tables, grants, and again after an upgrade."""
    passwords = {"OCTOPUS_OWNER_PASSWORD": OWNER, "OCTOPUS_APP_PASSWORD": APP}
    roles = DEPLOY / "postgres" / "roles.sql"
    psql(postgres_programs, server.url(), roles, tmp_path, **passwords)
    owner = server.url("octopus", user="octopus_owner", password=OWNER)
    app = server.url("octopus", user="octopus_app", password=APP)
    use_folder(tmp_path, monkeypatch)
    for _ in range(2):
        assert security("--db", owner) is None
        psql(postgres_programs, owner, DEPLOY / "postgres" / "grants.sql", tmp_path)
    assert security("--db", app) is None
    with EpisodicMemory.open(app, embedder="hashing", background=False) as memory:
        memory.scope(user="ana").store([("user", "Hello.")])
        memory.configure("default", memory.config("default"))
    with EpisodicMemory.open(owner, embedder="hashing", background=False) as memory:
        assert memory.scope(user="ana").erase().is_complete
    with connected(app) as conn:
        conn.execute("SET octopus.reach = 'all'")
        for statement in (
            "DELETE FROM octopus_audit",
            "UPDATE octopus_audit SET actor = 'x'",
            "DELETE FROM octopus_schema",
            "ALTER TABLE octopus_turns DISABLE ROW LEVEL SECURITY",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute(statement)


def security(*options: str) -> dict[str, Any] | None:
    found = run_json("doctor", *options)["checks"]
    return next((check for check in found if check["name"] == "row security"), None)


def test_nobody_connects_as_the_superuser():
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    urls = {
        name: service["environment"]["OCTOPUS_DATABASE_URL"]
        for name, service in services.items()
        if "OCTOPUS_DATABASE_URL" in service.get("environment", {})
    }
    assert {name: re.sub(r"postgresql://(\w+):.*", r"\1", url) for name, url in urls.items()} == {
        "service": "octopus_app",
        "worker": "octopus_owner",
        "tables": "octopus_owner",
    }
    for service in services.values():
        for mount in service.get("volumes", ()):
            source = mount.split(":")[0]
            assert not source.startswith(".") or (DEPLOY / source).is_file()


def test_doctor_warns_of_who_is_past_row_level_security(
    postgres_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    use_folder(tmp_path, monkeypatch)
    assert security("--db", postgres_database.url) is None
    assert security("--db", postgres_database.owner_url) is None
    found = security("--db", postgres_database.admin_url)
    assert found is not None
    assert found["status"] == "warning"
    assert "superuser" in found["detail"]
    assert "docs/howto/postgresql.md" in found["remedy"]


def test_doctor_warns_of_an_owner_with_bypassrls(
    postgres_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    use_folder(tmp_path, monkeypatch)
    owner = psycopg.conninfo.conninfo_to_dict(postgres_database.owner_url)["user"]
    with connected(postgres_database.admin_url) as conn:
        conn.execute(f"ALTER ROLE {owner} BYPASSRLS".encode())
        try:
            found = security("--db", postgres_database.owner_url)
        finally:
            conn.execute(f"ALTER ROLE {owner} NOBYPASSRLS".encode())
    assert found is not None
    assert (found["status"], "BYPASSRLS" in found["detail"]) == ("warning", True)


@pytest.mark.process
@pytest.mark.parametrize("page", ["howto/operate.md", "reference/database.md"])
def test_a_backup_by_the_guide_is_its_owners_alone(page: str, tmp_path: Path):
    [command] = re.findall(r"`([^`]*\.backup[^`]*)`", (ROOT / "docs" / page).read_text())
    with sqlite3.connect(tmp_path / "memory.db") as conn:
        conn.execute("CREATE TABLE t (x)")
    conn.close()
    # Stands for SQLite's own program, which is not on every machine.
    stand_in = tmp_path / "sqlite3"
    stand_in.write_text(
        f"#!{sys.executable}\nimport sqlite3, sys\n"
        "target = sqlite3.connect(sys.argv[2].split()[1])\n"
        "sqlite3.connect(sys.argv[1]).backup(target)\n"
    )
    stand_in.chmod(0o755)
    subprocess.run(
        ["sh", "-c", f"umask 022; {command}"],
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        check=True,
        timeout=60,
    )
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
