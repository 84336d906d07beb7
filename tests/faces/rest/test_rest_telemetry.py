"""Spans of requests: what they say, and what they never do; and the numbers of the work."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from octopus_memory import EmbedderFailed, EpisodicMemory
from octopus_memory.adapters.embedders.hashing import HashingEmbedder
from octopus_memory.faces.rest import telemetry
from octopus_memory.faces.rest.app import PREFIX
from octopus_memory.settings import ServerSettings
from octopus_memory.testing import FailingEmbedder, FixedClock
from tests.support import rest_server

WHO = {"agentId": "hr", "userId": "a-private-name"}
SAID = "what somebody said in private"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[EpisodicMemory]:
    path = tmp_path / "memory.db"
    with EpisodicMemory.open(path, embedder="hashing", background=False) as opened:
        yield opened


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """What is given to the provider that the whole process shares."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    for module in (trace, telemetry):
        monkeypatch.setattr(module, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


def everything(span: ReadableSpan) -> str:
    return f"{span.to_json()} {span.events} {span.status.description}"


def test_a_span_for_each_request(memory: EpisodicMemory, spans: InMemorySpanExporter):
    token = rest_server.token(memory)
    headers = {
        "Authorization": f"Bearer {token}",
        "X-Request-ID": "mine-1",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    }
    body = WHO | {"messages": [{"role": "user", "content": SAID}]}
    with rest_server.serving(memory, ServerSettings(telemetry=True)) as url:
        where = f"{url}{PREFIX}/sessions/a-private-session"
        httpx.post(f"{where}/messages", json=body, headers=headers)
        httpx.get(where, params=WHO, headers=headers)
        httpx.get(f"{url}/a-private-path")
    added, read, missing = spans.get_finished_spans()
    route = str((added.attributes or {})["http.route"])
    assert route.endswith("/sessions/{session_id}/messages")
    assert added.name == f"POST {route}"
    assert dict(added.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": route,
        "http.response.status_code": 201,
        "octopus.request_id": "mine-1",
        "octopus.actor_kind": "key",
    }
    assert added.parent is not None
    assert f"{added.parent.trace_id:x}" == "af7651916cd43dd8448eb211c80319c"
    assert (missing.attributes or {})["octopus.actor_kind"] == "none"
    assert missing.parent is None
    told = "".join(everything(span) for span in (added, read, missing))
    assert "private" not in told
    assert token.split("_")[1] not in told


def test_a_span_names_the_kind_of_a_failure_and_no_text(
    memory: EpisodicMemory, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(SAID)

    monkeypatch.setattr("octopus_memory.engine.write.add.add", fail)
    headers = {"Authorization": f"Bearer {rest_server.token(memory)}"}
    body = WHO | {"messages": [{"role": "user", "content": SAID}]}
    with rest_server.serving(memory, ServerSettings(telemetry=True)) as url:
        answer = httpx.post(f"{url}{PREFIX}/sessions/s/messages", json=body, headers=headers)
    assert answer.status_code == 500
    [span] = spans.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "RuntimeError"
    assert "private" not in everything(span)


def test_without_the_setting_there_is_no_span(memory: EpisodicMemory, spans: InMemorySpanExporter):
    with rest_server.serving(memory) as url:
        assert httpx.get(f"{url}/healthz").status_code == 200
        assert httpx.get(f"{url}{PREFIX}/episodes", params=WHO).status_code == 401
    assert spans.get_finished_spans() == ()


@pytest.mark.process
def test_without_the_setting_nothing_of_it_is_imported(tmp_path: Path):
    program = f"""
import sys
from octopus_memory import EpisodicMemory
from octopus_memory.faces.rest.app import make_app
from octopus_memory.settings import ServerSettings
with EpisodicMemory.open("sqlite:///{tmp_path / "m.db"}", embedder="hashing") as memory:
    make_app(memory, ServerSettings())
print([name for name in sys.modules if "opentelemetry.sdk" in name or "rest.telemetry" in name])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def work(url: str, kind: str) -> tuple[int, int]:
    """How much was done, and how much failed."""
    lines = httpx.get(f"{url}/metrics").text.splitlines()
    shown = dict(line.rsplit(" ", 1) for line in lines)
    done, failed = (
        shown[f'octopus_work_{what}_total{{kind="{kind}"}}'] for what in ("done", "failed")
    )
    return int(float(done)), int(float(failed))


def test_the_work_is_counted(tmp_path: Path, clock: FixedClock):
    embedder = FailingEmbedder(HashingEmbedder(), failures=1)
    with EpisodicMemory.open(
        tmp_path / "m.db", embedder=embedder, clock=clock, background=False
    ) as memory:
        said = [("user", "How many leave days do I have?"), ("assistant", "Twelve are left.")]
        memory.scope(user="ana").add("s", said)
        with rest_server.serving(memory) as url:
            assert work(url, "embed") == (0, 0)
            with pytest.raises(EmbedderFailed):
                memory.run_pending()
            assert work(url, "embed") == (0, 2)
            clock.advance(minutes=1)
            memory.run_pending()
            assert work(url, "embed") == (2, 2)
            assert work(url, "summarize") == (0, 0)
        # What was done before a service was there to be asked counts, too.
        with rest_server.serving(memory) as url:
            assert work(url, "embed") == (2, 2)
