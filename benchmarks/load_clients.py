"""The simulated clients, run by Locust in its own virtual environment.

Locust imports this file; nothing of Octopus is imported here, so that the load comes from a
program that shares nothing with the service.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import time
import uuid
from pathlib import Path

from locust import FastHttpUser, constant, events, task

PREFIX = "/api/octopus"
USERS = int(os.environ["LOAD_USERS"])
PATIENCE = float(os.environ["LOAD_PATIENCE"])
"""Seconds during which a failed request is retried; 0 for no retries."""
RESULTS = os.environ["LOAD_RESULTS"]
HEADERS = {"Authorization": f"Bearer {os.environ['LOAD_TOKEN']}"}
AGAIN = (0, 502, 503, 504)
TOPICS = ("leave days", "the budget", "a visit to Porto", "the new laptop", "parking", "the course")

number = itertools.count()
adds: list[tuple[int, str, float, bytes]] = []
recalls: list[float] = []
errors: list[str] = []
tried_again = 0


class Client(FastHttpUser):
    wait_time = constant(0)
    connection_timeout = 10
    network_timeout = 30

    @task(4)
    def add(self) -> None:
        user = random.randrange(USERS)
        said = f"Note {next(number)}: we talked about {random.choice(TOPICS)}, and Anna agreed."
        began = time.perf_counter()
        answer = self.ask(
            f"{PREFIX}/sessions/live/messages",
            {
                "agentId": "hr",
                "userId": f"user-{user}",
                "messages": [{"role": "user", "content": said}],
            },
            {**HEADERS, "Idempotency-Key": uuid.uuid4().hex},
            "add",
        )
        if answer is not None:
            adds.append((user, said, time.perf_counter() - began, answer))

    @task(1)
    def recall(self) -> None:
        user = random.randrange(USERS)
        body = {
            "agentId": "hr",
            "userId": f"user-{user}",
            "query": f"what about {random.choice(TOPICS)}?",
            "topK": 5,
        }
        began = time.perf_counter()
        if self.ask(f"{PREFIX}/episodes/search", body, HEADERS, "recall") is not None:
            recalls.append(time.perf_counter() - began)

    def ask(self, path: str, body: dict, headers: dict, name: str) -> bytes | None:
        """Return the body of the answer. Retries while the service is down."""
        global tried_again
        until = time.monotonic() + PATIENCE
        while True:
            with self.client.post(
                path, json=body, headers=headers, name=name, catch_response=True
            ) as answer:
                answer.success()
                said = answer.content or b""
                is_done = 200 <= answer.status_code < 300
                # A server that was killed after the headers has acknowledged nothing.
                if is_done and said.endswith(b"}"):
                    return said
                is_lost = is_done or answer.status_code in AGAIN
                if not is_lost or time.monotonic() > until:
                    errors.append(f"{name}: {answer.status_code} {answer.text or ''}"[:300])
                    return None
            tried_again += 1
            time.sleep(0.2)


@events.quitting.add_listener
def write_down(environment: object, **_: object) -> None:  # noqa: ARG001 - Locust's signature
    results = {
        "adds": [(user, said, took, body.decode()) for user, said, took, body in adds],
        "recalls": recalls,
        "errors": errors,
        "tried_again": tried_again,
        "cpu_seconds": time.process_time(),
    }
    Path(RESULTS).write_text(json.dumps(results))
