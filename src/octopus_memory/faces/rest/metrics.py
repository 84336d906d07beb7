"""Numbers for Prometheus: requests, and the work behind them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ...domain.errors import OctopusError
from ...engine.memory import Memory
from ...engine.tally import Tally
from ...ports.store import WorkKind

_KNOWN_SECONDS = 5.0


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
        self._registry.register(_Backlog(memory, self))
        self._registry.register(_Work(memory.parts.tally))
        self._page: tuple[float, list[Metric]] = (0.0, [])

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def page(self) -> bytes:
        return generate_latest(self._registry)

    def remembered(self, make: Callable[[], list[Metric]]) -> list[Metric]:
        """What was counted a moment ago: scraping often must cost the database nothing."""
        made_at, known = self._page
        if not known or time.monotonic() - made_at > _KNOWN_SECONDS:
            known = make()
            self._page = (time.monotonic(), known)
        return known


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
    def __init__(self, memory: Memory, metrics: Metrics) -> None:
        self._memory = memory
        self._metrics = metrics

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        return self._metrics.remembered(self._count)

    def _count(self) -> list[Metric]:
        waiting = GaugeMetricFamily(
            "octopus_work_waiting", "Pieces of work not done yet.", labels=["kind"]
        )
        oldest = GaugeMetricFamily(
            "octopus_work_oldest_seconds", "Age of the oldest piece.", labels=["kind"]
        )
        up = GaugeMetricFamily("octopus_database_up", "Whether the database answers.")
        try:
            parts = self._memory.parts
            now = parts.clock.now()
            for kind, backlog in parts.store.backlog().items():
                waiting.add_metric([kind.value], backlog.waiting)
                age = (now - backlog.oldest).total_seconds() if backlog.oldest else 0.0
                oldest.add_metric([kind.value], max(0.0, age))
            up.add_metric([], 1)
        except OctopusError:
            up.add_metric([], 0)
        return [waiting, oldest, up]
