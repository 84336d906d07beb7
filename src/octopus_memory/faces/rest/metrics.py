"""Metrics for Prometheus: requests and background work."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from ...domain.errors import OctopusError
from ...engine.memory import Memory
from ...ports.recall_rows import Backlog, WorkKind
from .multiprocess import METRICS_FOLDER

_KNOWN_SECONDS = 1.0


class Metrics:
    """The metrics of one application. Two in a process have two registries.

    Where several processes serve, each counts in files that all of them read.
    """

    def __init__(self, memory: Memory) -> None:
        own = CollectorRegistry()
        self._requests = Counter(
            "octopus_http_requests",
            "Requests answered.",
            ["method", "route", "status"],
            registry=own,
        )
        self._seconds = Histogram(
            "octopus_http_request_seconds",
            "Duration of requests.",
            ["route"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
            registry=own,
        )
        self._kinds: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self.waiting = Waiting(memory)
        folder = os.environ.get(METRICS_FOLDER)
        self._registry = own
        if folder:
            memory.counts.share(Path(folder))
            self._registry = CollectorRegistry()
            MultiProcessCollector(self._registry)  # type: ignore[no-untyped-call]
        self._registry.register(_Work(memory, self.waiting))

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
    """Collects the pending work, with at most one query a second."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._known: tuple[float, Mapping[WorkKind, Backlog]] | None = None

    def now(self) -> Mapping[WorkKind, Backlog]:
        known = self._known
        if known is None or time.monotonic() - known[0] > _KNOWN_SECONDS:
            known = self._known = (time.monotonic(), self._memory.backlog())
        return known[1]


class _Work(Collector):
    """Reads the pending work, and what this service has done of it."""

    def __init__(self, memory: Memory, waiting: Waiting) -> None:
        self._memory = memory
        self._waiting = waiting

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        waiting = GaugeMetricFamily("octopus_work_waiting", "Pending tasks.", labels=["kind"])
        oldest = GaugeMetricFamily(
            "octopus_work_oldest_seconds", "Age of the oldest pending task.", labels=["kind"]
        )
        up = GaugeMetricFamily("octopus_database_up", "Whether the database answers.")
        keys = GaugeMetricFamily("octopus_key_store_up", "Whether the key store answers.")
        lost = GaugeMetricFamily(
            "octopus_messages_lost", "Messages that integrations could not store and gave up."
        )
        nodes = GaugeMetricFamily(
            "octopus_database_node_up",
            "Whether each node of a distributed database answers.",
            labels=["node"],
        )
        done = CounterMetricFamily(
            "octopus_work_done", "Tasks done by this service.", labels=["kind"]
        )
        failed = CounterMetricFamily(
            "octopus_work_failed", "Attempts that failed in this service.", labels=["kind"]
        )
        for kind, (pieces, attempts) in self._memory.counts.work().items():
            done.add_metric([kind.value], pieces)
            failed.add_metric([kind.value], attempts)
        try:
            now = self._memory.now()
            for kind, backlog in self._waiting.now().items():
                waiting.add_metric([kind.value], backlog.waiting)
                age = (now - backlog.oldest).total_seconds() if backlog.oldest else 0.0
                oldest.add_metric([kind.value], max(0.0, age))
            lost.add_metric([], self._memory.database_state().lost)
            for name, answers in self._memory.nodes().items():
                nodes.add_metric([name], answers)
            up.add_metric([], 1)
        except OctopusError:
            up.add_metric([], 0)
        try:
            # Without scope keys there is no such number.
            if self._memory.ping_keys():
                keys.add_metric([], 1)
        except OctopusError:
            keys.add_metric([], 0)
        return [done, failed, waiting, oldest, lost, up, keys, nodes]
