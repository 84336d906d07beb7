"""The inspector inside the service, the page to try routes on, and `octopus inspect`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from octopus_memory import EpisodicMemory

pytest.importorskip("jinja2", reason="the extra server is not installed")
from starlette.testclient import TestClient

from octopus_memory.faces.inspector.command import inspector_routes
from octopus_memory.faces.rest.app import make_app
from octopus_memory.settings import ServerSettings
from tests.support import rest_server

LOCAL = ("127.0.0.1", 50_000)


@pytest.fixture
def filled(memory: EpisodicMemory) -> EpisodicMemory:
    memory.scope(agent="hr", user="ana").store([("user", "I am allergic to peanuts.")])
    return memory


def client(memory: EpisodicMemory, *, development: bool) -> TestClient:
    app = make_app(memory, ServerSettings(), development=development, pages=inspector_routes)
    return TestClient(app, base_url="http://127.0.0.1", client=LOCAL)


def test_the_service_shows_it_to_whoever_signs_in(filled: EpisodicMemory):
    with client(filled, development=False) as pages:
        assert pages.get("/", follow_redirects=False).headers["location"] == "/sign-in"
        pages.post("/sign-in", data={"key": rest_server.token(filled)})
        assert "ana" in pages.get("/").text
        # The cookie is for pages alone: the routes want the key itself.
        assert pages.get("/api/octopus/episodes").status_code == 401
        assert pages.get("/healthz").status_code == 200


def test_guesses_at_the_pages_and_at_the_routes_count_together(filled: EpisodicMemory):
    with client(filled, development=False) as pages:

        def guess(way: int) -> int:
            if way % 2:
                return pages.post("/sign-in", data={"key": f"oct_x_{way}"}).status_code
            wrong = {"Authorization": f"Bearer oct_x_{way}"}
            return pages.get("/api/octopus/episodes", headers=wrong).status_code

        assert [guess(way) for way in range(22)] == [401] * 20 + [429] * 2


def test_development_mode_answers_this_machine_alone(filled: EpisodicMemory):
    with client(filled, development=True) as pages:
        assert "ana" in pages.get("/").text
        for headers in (
            {"X-Forwarded-For": "10.0.0.1"},
            {"Host": "evil.example"},
            {"Origin": "http://evil.example"},
        ):
            answer = pages.get("/", headers=headers)
            assert answer.status_code == 403
            assert "ana" not in answer.text
        forged = {"agent": "hr", "user": "ana", "confirm": "ana"}
        assert pages.post("/erasure/erase", data=forged).status_code == 403
    assert filled.scope(agent="hr", user="ana").episodes().total_count == 1


def test_a_form_of_one_process_is_taken_by_another(filled: EpisodicMemory):
    with client(filled, development=True) as one, client(filled, development=True) as other:
        found = re.search(r'name="csrf" value="(\w+)"', one.get("/facts?agent=hr&user=ana").text)
        assert found is not None
        form = {"csrf": found[1], "agent": "hr", "user": "ana", "text": "Prefers tea."}
        assert other.post("/facts/add", data=form).status_code == 200
    assert [fact.text for fact in filled.scope(agent="hr", user="ana").facts()][-1:] == [
        "Prefers tea."
    ]


def test_routes_can_be_tried_without_the_internet(filled: EpisodicMemory):
    with client(filled, development=False) as pages:
        page = pages.get("/docs")
        assert page.status_code == 200
        assert "http" not in re.sub(r"<!doctype.*?>", "", page.text)
        assert pages.get("/docs/docs.js").status_code == 200
        assert pages.get("/docs/nothing.js").status_code == 404
        assert pages.get("/docs/..%2Fapp.py").status_code == 404
        pytest.importorskip("fastapi_offline", reason="the extra server is not installed")
        for name in ("swagger-ui.css", "swagger-ui-bundle.js"):
            assert name in page.text
            assert len(pages.get(f"/docs/{name}").content) > 10_000


@pytest.mark.process
def test_the_command_shows_a_file_at_an_address_of_its_own(tmp_path: Path):
    path = tmp_path / "memory.db"
    with EpisodicMemory.open(path, embedder="hashing", background=False) as memory:
        memory.scope(user="ana").store([("user", "Hello.")])
    asked = [sys.executable, "-m", "octopus_memory", "inspect", str(path), "--no-browser"]
    env = os.environ | {"OCTOPUS_EMBEDDER": "hashing", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True, env=env) as running:
        assert running.stdout is not None
        try:
            said = "".join(running.stdout.readline() for _ in range(2))
            address = re.search(r"http://127\.0\.0\.1:\d+/\?token=[\w-]+", said)
            assert address is not None, said
            with httpx.Client(follow_redirects=True, timeout=30) as visitor:
                transport = httpx.HTTPTransport(retries=20)
                with httpx.Client(transport=transport, follow_redirects=True) as first:
                    page = first.get(address[0])
                    assert "ana" in page.text
                    assert "token" not in str(page.url)
                stranger = visitor.get(address[0].partition("?")[0])
                assert "Open the whole address" in stranger.text
        finally:
            running.terminate()


@pytest.mark.process
def test_the_demo_is_shown_until_it_is_interrupted(tmp_path: Path):
    asked = [sys.executable, "-m", "octopus_memory", "demo", "--serve", "--no-browser"]
    env = os.environ | {"TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True, env=env) as running:
        assert running.stdout is not None
        try:
            said = ""
            while "Stop it" not in said:
                line = running.stdout.readline()
                assert line, said
                said += line
            address = re.search(r"http://127\.0\.0\.1:\d+/\?token=[\w-]+", said)
            assert address is not None, said
            transport = httpx.HTTPTransport(retries=20)
            with httpx.Client(transport=transport, follow_redirects=True, timeout=30) as visitor:
                assert "dana" in visitor.get(address[0]).text
                base = address[0].partition("?")[0]
                who = "agent=aria&user=dana&session=back-in-may"
                assert "The model was shown" in visitor.get(f"{base}replay?{who}").text
            assert list(tmp_path.rglob("*.db"))
            running.send_signal(signal.SIGINT)
            assert running.wait(30) == 0
        finally:
            running.kill()
    assert not list(tmp_path.rglob("*.db"))


@pytest.mark.process
def test_the_command_makes_no_database(tmp_path: Path):
    asked = [sys.executable, "-m", "octopus_memory", "inspect", str(tmp_path / "no.db")]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert "must exist" in done.stderr
    assert not list(tmp_path.iterdir())
