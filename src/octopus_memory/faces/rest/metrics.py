"""Numbers for Prometheus: requests, and the work behind them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ...domain.errors import OctopusError
from ...engine.memory import Memory
from ...engine.tally import Tally
from ...ports.store import Backlog, WorkKind

_KNOWN_SECONDS = 1.0


class Metrics:
    """One registry for each app, so that two in a process do not mix."""

    def __init__(self, memory: Memory) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "octopus_http_requests",
            "Requests answered.",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "octopus_http_request_seconds",
            "How long a request took.",
            ["route"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
            registry=self._registry,
        )
        self._kinds: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self.waiting = Waiting(memory)
        self._registry.register(_Backlog(memory, self.waiting))
        self._registry.register(_Work(memory.parts.tally))

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        kind = (method, route, status)
        known = self._kinds.get(kind)
        if known is None:
            count = self._requests.labels(method, route, str(status))
            known = self._kinds[kind] = (count, self._seconds.labels(route))
        known[0].inc()
        known[1].observe(seconds)

    def page(self) -> bytes:
        return generate_latest(self._registry)


class Waiting:
    """What is still to be done, counted once a second however many ask for it."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._known: tuple[float, Mapping[WorkKind, Backlog]] | None = None

    def now(self) -> Mapping[WorkKind, Backlog]:
        known = self._known
        if known is None or time.monotonic() - known[0] > _KNOWN_SECONDS:
            known = self._known = (time.monotonic(), self._memory.parts.store.backlog())
        return known[1]


class _Work(Collector):
    """What this process did of the background work; another worker counts its own."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        done = CounterMetricFamily(
            "octopus_work_done", "Pieces of work done by this process.", labels=["kind"]
        )
        failed = CounterMetricFamily(
            "octopus_work_failed", "Tries of this process that failed.", labels=["kind"]
        )
        for kind in WorkKind:
            done.add_metric([kind.value], self._tally.done(kind))
            failed.add_metric([kind.value], self._tally.failed(kind))
        return [done, failed]


class _Backlog(Collector):
    def __init__(self, memory: Memory, waiting: Waiting) -> None:
        self._memory = memory
        self._waiting = waiting

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        waiting = GaugeMetricFamily(
            "octopus_work_waiting", "Pieces of work not done yet.", labels=["kind"]
        )
        oldest = GaugeMetricFamily(
            "octopus_work_oldest_seconds", "Age of the oldest piece.", labels=["kind"]
        )
        up = GaugeMetricFamily("octopus_database_up", "Whether the database answers.")
        try:
            now = self._memory.parts.clock.now()
            for kind, backlog in self._waiting.now().items():
                waiting.add_metric([kind.value], backlog.waiting)
                age = (now - backlog.oldest).total_seconds() if backlog.oldest else 0.0
                oldest.add_metric([kind.value], max(0.0, age))
            up.add_metric([], 1)
        except OctopusError:
            up.add_metric([], 0)
        return [waiting, oldest, up]
