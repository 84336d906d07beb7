"""Several services on one PostgreSQL: python -m benchmarks.load --services 2 4 --seconds 600

Clients write and read the same users, each request at a service that is chosen at random, so that
a user's writers and readers meet different processes. Users are erased meanwhile, and every
`--kill-every` seconds one of the services or the worker is killed. A request without an answer is
sent again, with its idempotency key, to another service.

Every answer is checked: a session holds what was acknowledged before it was asked for, each turn
once, and nothing of a user's life before an erasure that was acknowledged. Afterwards each service
reads everything back. Requests per second are those of a run without kills, beside one service.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.load_books import User, faults_of, lives_in, turns_of
from benchmarks.load_processes import OCTOPUS, Program, free_port
from octopus_memory import EpisodicMemory
from octopus_memory.ports.recall_rows import WorkKind

PREFIX, AGENT = "/api/octopus", "hr"
ERASE_EVERY = 1.0
PATIENCE = 60.0
"""Seconds during which a request is sent again while services are down."""
AGAIN = (429, 502, 503, 504)


class Gone(Exception):
    """A service that does not answer."""


@dataclass
class Services:
    """The processes under test, and how clients reach them."""

    programs: list[Program]
    ports: list[int]
    worker: Program
    kills: int = 0

    def kill_one(self) -> None:
        killed = random.choice([*self.programs, self.worker])
        killed.kill()
        self.kills += 1
        killed.start()


class Client:
    """One thread's connections, one to each service."""

    def __init__(self, ports: list[int], count: Callable[[str], None]) -> None:
        self._ports = ports
        self._count = count
        self._open: dict[int, http.client.HTTPConnection] = {}

    def ask(
        self, token: str, method: str, path: str, body: Any = None, *, key: str | None = None
    ) -> Any:
        """Return the answer of any service; None for 404."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return self.ask_one(random.choice(self._ports), token, method, path, body, key=key)
            except Gone:
                if time.monotonic() > until:
                    raise
                self._count("sent again")
                time.sleep(0.05)

    def ask_one(
        self,
        port: int,
        token: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
    ) -> Any:
        """Return the answer of one service.

        :raises Gone: when it does not answer, or is busy
        """
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        is_reused = port in self._open
        try:
            connection = self._open.setdefault(
                port, http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            )
            sent = None if body is None else json.dumps(body)
            connection.request(method, PREFIX + path, body=sent, headers=headers)
            answer = connection.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._open.pop(port).close()
            if is_reused:
                # The service may only have closed a connection that was idle.
                return self.ask_one(port, token, method, path, body, key=key)
            raise Gone from error
        if answer.status in AGAIN:
            raise Gone
        if answer.status == 404:
            return None
        if not 200 <= answer.status < 300:
            raise SystemExit(f"{method} {path}: {answer.status} {said[:300]!r}")
        return json.loads(said)

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()


@dataclass
class Load:
    """A number of clients on the services, and everything that they saw."""

    services: Services
    agent_token: str
    admin_token: str
    users: list[User]
    clients: int
    seen: Counter = field(default_factory=Counter)
    faults: Counter = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self, seconds: float, kill_every: float | None, least_kills: int) -> None:
        threads = [self._thread(self._talk) for _ in range(self.clients)]
        threads.append(self._thread(self._erase_some))
        for thread in threads:
            thread.start()
        due = time.monotonic()
        until = due + seconds
        while not self._stop.is_set():
            left = until - time.monotonic()
            if kill_every is not None and (left >= kill_every or self.services.kills < least_kills):
                # The time of a restart counts.
                due = max(due + kill_every, time.monotonic())
                self._stop.wait(due - time.monotonic())
                self.services.kill_one()
            elif left > 0:
                self._stop.wait(left)
            else:
                break
        self._stop.set()
        for thread in threads:
            thread.join()

    def read_back(self) -> None:
        """Ask each service for everything of every user."""
        client = Client(self.services.ports, self._count)
        for port in self.services.ports:
            for user in self.users:
                life, sessions = user.now()
                for session, known in sessions.items():
                    found = client.ask_one(port, *self._session(user, session))
                    self._judge(life, known, found)
                    texts = {turn["message"]["content"] for turn in turns_of(found)}
                    self.faults["stored, but never sent"] += len(texts - set(known))
        client.close()

    def _thread(self, work: Callable[[Client], None]) -> threading.Thread:
        def run() -> None:
            client = Client(self.services.ports, self._count)
            try:
                while not self._stop.is_set():
                    work(client)
            except BaseException as error:  # noqa: BLE001 - told by the thread that reports
                self.errors.append(repr(error))
                self._stop.set()
            client.close()

        return threading.Thread(target=run)

    def _talk(self, client: Client) -> None:
        user = random.choice(self.users)
        match random.choices(("add", "recall", "read"), (7, 2, 1))[0]:
            case "add":
                self._add(client, user)
            case "recall":
                self._recall(client, user)
            case _:
                self._read(client, user)

    def _add(self, client: Client, user: User) -> None:
        with user.writing():
            session, text = user.next_message()
            body = _who(user) | {"messages": [{"role": "user", "content": text}]}
            path = f"/sessions/{_quoted(session)}/messages"
            said = client.ask(self.agent_token, "POST", path, body, key=uuid.uuid4().hex)
            user.acknowledge(session, text, said["turns"][0])
        self._count("added")

    def _recall(self, client: Client, user: User) -> None:
        life, sessions = user.now()
        known = [text for turns in sessions.values() for text in turns]
        asked = random.choice(known) if known else "Which parcel went to Porto?"
        body = _who(user) | {"query": asked, "topK": 5}
        found = client.ask(self.agent_token, "POST", "/turns/search", body)["results"]
        self._count("recalled")
        texts = [each["text"] for each in found]
        with self._lock:
            self.faults["erased, but read"] += sum(each < life for each in lives_in(texts))
            # An erasure that began meanwhile may have removed it.
            if known and asked not in texts and user.is_in(life):
                self.faults["not found"] += 1

    def _read(self, client: Client, user: User) -> None:
        life, sessions = user.now()
        if not sessions:
            return
        session = random.choice(list(sessions))
        found = client.ask(*self._session(user, session))
        self._count("read")
        if user.is_in(life):
            self._judge(life, sessions[session], found)

    def _erase_some(self, client: Client) -> None:
        if self._stop.wait(ERASE_EVERY):
            return
        user = random.choice(self.users)
        with user.erasing():
            sessions = user.now()[1]
            path = f"/users/{user.name}/memory?agentId={AGENT}&physical=false"
            client.ask(self.admin_token, "DELETE", path)
            user.begin_again()
            self._count("erased")
            known = [text for turns in sessions.values() for text in turns]
            for port in self.services.ports:
                for session in list(sessions)[-2:]:
                    self._is_gone(client, port, user, session, known[-1] if known else "parcel")

    def _is_gone(self, client: Client, port: int, user: User, session: str, text: str) -> None:
        """Ask one service by every way that reads, as soon as the erasure was acknowledged."""
        who, said = _who(user), ""
        asked = {
            "/turns/search": {"query": text},
            "/episodes/search": {"query": text},
            "/context": {"message": "Where did the parcels go?"},
        }
        try:
            said += json.dumps(client.ask_one(port, *self._session(user, session)))
            for path, body in asked.items():
                said += json.dumps(client.ask_one(port, self.agent_token, "POST", path, who | body))
        except Gone:
            self._count("not asked, because it was down")
            return
        self._count("asked after an erasure")
        with self._lock:
            self.faults["erased, but read"] += said.count("The parcel ")

    def _judge(self, life: int, known: dict[str, tuple[str, int]], found: Any) -> None:
        with self._lock:
            self.faults += faults_of(life, known, turns_of(found))

    def _session(self, user: User, session: str) -> tuple[str, str, str]:
        path = f"/sessions/{_quoted(session)}?agentId={AGENT}&userId={user.name}"
        return self.agent_token, "GET", path

    def _count(self, what: str) -> None:
        with self._lock:
            self.seen[what] += 1


def _who(user: User) -> dict[str, str]:
    return {"agentId": AGENT, "userId": user.name}


def _quoted(session: str) -> str:
    return session.replace(" ", "%20")


@dataclass
class Result:
    services: int
    seconds: float
    kills: int
    requests: int
    cpu_ms: float
    """CPU milliseconds of the services per request."""
    seen: dict[str, int]
    faults: dict[str, int]

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds


def run(
    url: str,
    folder: Path,
    *,
    services: int,
    seconds: float,
    kill_every: float | None = None,
    least_kills: int = 0,
    users: int = 200,
    clients: int = 16,
) -> Result:
    """Load a number of services, kill them, read everything back, and return what was seen."""
    tokens = _tokens(url)
    people = [User(f"user-{uuid.uuid4().hex[:6]}") for _ in range(users)]
    with _serving(url, folder, services) as processes:
        load = Load(processes, *tokens, people, clients)
        before, began = _cpu(processes), time.perf_counter()
        load.run(seconds, kill_every, least_kills)
        took, spent = time.perf_counter() - began, _cpu(processes) - before
        if load.errors:
            load.faults["clients failed"] += len(load.errors)
            print(*load.errors[:3], sep="\n", file=sys.stderr)
        else:
            load.read_back()
    load.faults += _unfinished(url)
    requests = sum(load.seen[what] for what in ("added", "recalled", "read", "erased"))
    return Result(
        services=services,
        seconds=took,
        kills=processes.kills,
        requests=requests,
        cpu_ms=spent / max(requests, 1) * 1e3,
        seen=dict(load.seen),
        faults={what: count for what, count in load.faults.items() if count},
    )


@contextmanager
def _serving(url: str, folder: Path, number: int) -> Iterator[Services]:
    env = {
        "OCTOPUS_DATABASE_URL": url,
        "OCTOPUS_EMBEDDER": "hashing",
        "OCTOPUS_SERVER__REQUESTS_PER_MINUTE": "100000000",
    }
    ports = [free_port() for _ in range(number)]
    programs = [
        Program(
            [*OCTOPUS, "serve", "--no-worker", "--port", str(port)],
            env,
            folder / f"serve-{port}.log",
            port,
        )
        for port in ports
    ]
    worker = Program([*OCTOPUS, "worker"], env, folder / "worker.log")
    with ExitStack() as started:
        for program in (*programs, worker):
            program.start()
            started.callback(program.stop)
        yield Services(programs, ports, worker)


def _cpu(services: Services) -> float:
    return sum(program.cpu_seconds() for program in services.programs)


def _tokens(url: str) -> tuple[str, str]:
    with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:

        def made(role: str, agents: list[str] | None) -> str:
            return memory.api_keys.create(
                tenant="default",
                role=role,
                name=f"load {role}",
                agents=agents,
                actor="load",
            ).token

        return made("agent", [AGENT]), made("admin", None)


def _unfinished(url: str) -> Counter:
    """Finish the pending work; each turn then has one vector."""
    with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:
        memory.flush()
        stats = memory.stats()
    texts = stats.turns + stats.episodes - stats.open_episodes
    return Counter(
        {
            "waiting to be embedded": stats.backlog[WorkKind.EMBED].waiting,
            "vectors missing or doubled": abs(sum(stats.vectors.values()) - texts),
        }
    )


def table(results: list[Result]) -> str:
    [floor] = [each for each in results if each.services == 1]
    lines = [
        "| services | kills | seconds | requests/s | beside one | CPU ms a request | faults |",
        "|--:|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {each.services} | {each.kills} | {each.seconds:.0f} | {each.per_second:.0f} "
        f"| {each.per_second / floor.per_second:.2f} | {each.cpu_ms:.2f} "
        f"| {sum(each.faults.values())} |"
        for each in results
    ]
    return "\n".join(lines)


def main(options: argparse.Namespace) -> None:
    """Measure one and several services in peace, and check several while they are killed."""
    from benchmarks.year_databases import opened

    calm = [(number, options.calm, None) for number in sorted({1, *options.services})]
    killed = [(number, options.seconds, options.kill_every) for number in options.services]
    results = []
    for number, seconds, kill_every in calm + killed:
        with (
            tempfile.TemporaryDirectory(prefix="octopus-load-") as folder,
            opened("postgresql", Path(folder), options.url) as database,
        ):
            results.append(
                run(
                    database.url,
                    Path(folder),
                    services=number,
                    seconds=seconds,
                    kill_every=kill_every,
                )
            )
        print(json.dumps(asdict(results[-1])), flush=True)
    print(table(results))
    faults = sum((Counter(each.faults) for each in results), Counter())
    if faults:
        raise SystemExit(f"promises were broken: {dict(faults)}")
