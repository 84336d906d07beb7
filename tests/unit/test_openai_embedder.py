"""OpenAIEmbedder against a real HTTP server that behaves well, and badly."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from octopus_memory.adapters.embedders.openai import OpenAIEmbedder
from octopus_memory.domain.errors import EmbedderFailed, InvalidSetting, MissingExtra
from octopus_memory.testing.openai_server import FakeOpenAIServer, vector

KEY = "sk-test-3f9a1c"
SECRET = "my locker code is 4417"
AT_ONCE = {"retry-after-ms": "1"}

MakeEmbedder = Callable[..., OpenAIEmbedder]


@pytest.fixture(scope="module")
def running() -> Iterator[FakeOpenAIServer]:
    with FakeOpenAIServer(dimension=16, api_key=KEY) as server:
        yield server


@pytest.fixture
def server(running: FakeOpenAIServer) -> FakeOpenAIServer:
    running.clear()
    return running


@pytest.fixture
def embedder_of(server: FakeOpenAIServer) -> Iterator[MakeEmbedder]:
    made: list[OpenAIEmbedder] = []

    def make(model: str = "some-model", **settings: object) -> OpenAIEmbedder:
        given = {"base_url": server.base_url, "api_key": KEY} | settings
        made.append(OpenAIEmbedder(model, **given))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for embedder in made:
        embedder.close()


@pytest.fixture(scope="module")
def shared(running: FakeOpenAIServer) -> Iterator[OpenAIEmbedder]:
    embedder = OpenAIEmbedder("some-model", base_url=running.base_url, api_key=KEY)
    assert embedder.dimension == 16
    yield embedder
    embedder.close()


@pytest.fixture
def embedder(server: FakeOpenAIServer, shared: OpenAIEmbedder) -> OpenAIEmbedder:
    """An embedder with a known dimension; shared by all tests, because a client is slow to make."""
    return shared


def inputs(server: FakeOpenAIServer) -> list[list[str]]:
    return [request.body["input"] for request in server.requests]


def failure(embedder: OpenAIEmbedder, texts: list[str] | None = None) -> str:
    with pytest.raises(EmbedderFailed) as caught:
        embedder.embed(texts or [SECRET])
    words = str(caught.value)
    assert KEY not in words
    assert SECRET not in words
    return words


def test_rows_are_the_servers_vectors_in_order(embedder: OpenAIEmbedder) -> None:
    texts = ["a trip to Lisbon", "peanut allergy", "a trip to Porto"]
    rows = embedder.embed(texts)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, [vector(text, 16) for text in texts], atol=1e-6)


def test_rows_are_made_unit_length_and_put_in_order(
    server: FakeOpenAIServer, embedder_of: MakeEmbedder
) -> None:
    second = {"index": 1, "embedding": [0.0, 5.0]}
    first = {"index": 0, "embedding": [3.0, 4.0]}
    server.send({"data": [second, first]})
    np.testing.assert_allclose(embedder_of().embed(["a", "b"]), [[0.6, 0.8], [0.0, 1.0]], atol=1e-6)


def test_no_texts_give_no_rows(embedder: OpenAIEmbedder) -> None:
    assert embedder.embed([]).shape == (0, 16)


def test_many_texts_go_in_batches(server: FakeOpenAIServer, embedder_of: MakeEmbedder) -> None:
    texts = [f"text {number}" for number in range(7)]
    rows = embedder_of(batch=3).embed(texts)
    assert [len(batch) for batch in inputs(server)] == [3, 3, 1]
    np.testing.assert_allclose(rows, [vector(text, 16) for text in texts], atol=1e-6)


def test_texts_the_api_refuses_are_made_fit(
    server: FakeOpenAIServer, embedder: OpenAIEmbedder
) -> None:
    embedder.embed(["", "half \ud83d pair", "é" * 100_000])
    empty, half, long = inputs(server)[0]
    assert empty == " "
    assert half == "half ? pair"
    assert long == "é" * 12_000


def test_an_endpoint_with_a_smaller_limit_gets_shorter_texts() -> None:
    with FakeOpenAIServer(dimension=16, max_chars=1_000) as server:
        embedder = OpenAIEmbedder("small-context", base_url=server.base_url)
        long = "word " * 800
        alone = embedder.embed([long])
        among = embedder.embed(["short", long, "brief"])
        embedder.close()
    np.testing.assert_allclose(among[1], alone[0])
    np.testing.assert_allclose(among[[0, 2]], [vector("short", 16), vector("brief", 16)], atol=1e-6)


@pytest.mark.parametrize(
    ("model", "dimension", "name", "size"),
    [
        ("text-embedding-3-small", None, "openai/text-embedding-3-small", 1536),
        ("text-embedding-3-small", 1536, "openai/text-embedding-3-small", 1536),
        ("text-embedding-3-large", 256, "openai/text-embedding-3-large@256", 256),
        ("BAAI/bge-m3", 512, "openai/BAAI/bge-m3@512", 512),
    ],
)
def test_the_model_names_its_space(
    server: FakeOpenAIServer,
    embedder_of: MakeEmbedder,
    model: str,
    dimension: int | None,
    name: str,
    size: int,
) -> None:
    embedder = embedder_of(model, dimension=dimension)
    assert (embedder.model, embedder.dimension) == (name, size)
    assert server.requests == []


def test_an_unknown_models_dimension_is_asked_for_once(
    server: FakeOpenAIServer, embedder_of: MakeEmbedder
) -> None:
    embedder = embedder_of()
    assert (embedder.dimension, embedder.dimension) == (16, 16)
    assert inputs(server) == [[" "]]


def test_shortened_vectors_are_asked_of_the_model(
    server: FakeOpenAIServer, embedder_of: MakeEmbedder
) -> None:
    rows = embedder_of(dimension=8).embed(["hello"])
    assert rows.shape == (1, 8)
    assert server.requests[0].body["dimensions"] == 8
    embedder_of().embed(["hello"])
    assert "dimensions" not in server.requests[1].body


def test_it_is_safe_to_share_between_threads(embedder_of: MakeEmbedder) -> None:
    embedder = embedder_of()
    texts = [f"text {number}" for number in range(16)]
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda text: embedder.embed([text])[0], texts))
    np.testing.assert_allclose(rows, [vector(text, 16) for text in texts], atol=1e-6)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "refused the request (400): check model"),
        (401, "did not accept the key (401): check api_key"),
        (403, "did not accept the key (403): check api_key"),
        (404, "check model and base_url"),
        (429, "rate limit or quota (429)"),
        (500, "failed on its side (500): try later"),
        (503, "failed on its side (503): try later"),
    ],
)
def test_an_error_status_says_what_to_do(
    server: FakeOpenAIServer, embedder: OpenAIEmbedder, status: int, words: str
) -> None:
    server.fail(times=3, status=status, headers=AT_ONCE, message=f"{KEY} {SECRET}")
    assert words in failure(embedder)


@pytest.mark.parametrize("status", [429, 500])
def test_a_passing_fault_is_waited_out(
    server: FakeOpenAIServer, embedder: OpenAIEmbedder, status: int
) -> None:
    server.fail(times=2, status=status, headers=AT_ONCE)
    np.testing.assert_allclose(embedder.embed(["hello"]), [vector("hello", 16)], atol=1e-6)
    assert len(server.requests) == 3


@pytest.mark.slow
def test_a_slow_endpoint_is_given_up(server: FakeOpenAIServer, embedder_of: MakeEmbedder) -> None:
    server.delay(30, times=3)
    assert "no answer within 0.05 s: raise timeout" in failure(embedder_of(timeout=0.05))
    assert len(server.requests) == 3


@pytest.mark.parametrize("midway", [False, True])
def test_a_dropped_connection_is_tried_again(
    server: FakeOpenAIServer, embedder: OpenAIEmbedder, midway: bool
) -> None:
    server.drop(midway=midway)
    assert embedder.embed(["hello"]).shape == (1, 16)
    assert len(server.requests) == 2


@pytest.mark.slow
def test_an_endpoint_that_is_gone_is_named() -> None:
    with FakeOpenAIServer() as server:
        address = server.base_url
    embedder = OpenAIEmbedder("m", base_url=address.replace("//", "//user:hunter2@"), api_key=KEY)
    words = failure(embedder)
    embedder.close()
    assert "127.0.0.1 cannot be reached" in words
    assert "hunter2" not in words


@pytest.mark.parametrize(
    "body",
    [
        b'{"data": [{"index": 0, "embe',
        b"",
        b"<html>gateway</html>",
        b"[]",
        b'{"error": {"message": "with a 200"}}',
        b'{"data": [{"index": 0}]}',
        b'{"data": ["text"]}',
        b'{"data": [{"index": 0, "embedding": "AAAA"}]}',
        b'{"data": [{"index": "zero", "embedding": [1]}, {"index": 0, "embedding": [1, 2]}]}',
        b"\xff\xfe\xfd",
    ],
)
def test_a_malformed_answer_is_no_vector(
    server: FakeOpenAIServer, embedder: OpenAIEmbedder, body: bytes
) -> None:
    server.send(body)
    assert "OpenAI-compatible" in failure(embedder)


@pytest.mark.parametrize("order", [[0], [0, 0], [1, 2], [0, 1, 2], []])
def test_each_text_must_have_its_vector(
    server: FakeOpenAIServer, embedder: OpenAIEmbedder, order: list[int]
) -> None:
    server.send({"data": [{"index": index, "embedding": [1.0]} for index in order]})
    assert f"{len(order)} vectors for 2 texts" in failure(embedder, [SECRET, SECRET])


def test_vectors_of_another_length_are_refused(
    server: FakeOpenAIServer, embedder: OpenAIEmbedder
) -> None:
    server.send({"data": [{"index": 0, "embedding": [1.0] * 12}]})
    assert "vectors of 12 numbers where 16 were expected" in failure(embedder)


def test_an_endpoint_that_does_not_shorten_is_found_out(
    server: FakeOpenAIServer, embedder_of: MakeEmbedder
) -> None:
    server.send({"data": [{"index": 0, "embedding": [1.0] * 16}]})
    assert "16 numbers where 8 were expected: leave dimension out" in failure(
        embedder_of(dimension=8)
    )


@pytest.mark.parametrize("number", [0.0, float("nan"), float("inf")])
def test_a_vector_without_direction_is_refused(
    server: FakeOpenAIServer, embedder: OpenAIEmbedder, number: float
) -> None:
    server.send({"data": [{"index": 0, "embedding": [number] * 16}]})
    assert "no direction" in failure(embedder)


def test_an_empty_vector_is_refused(server: FakeOpenAIServer, embedder_of: MakeEmbedder) -> None:
    server.send({"data": [{"index": 0, "embedding": []}]})
    assert "vectors of 0 numbers" in failure(embedder_of())


def test_a_wrong_key_is_not_repeated(embedder_of: MakeEmbedder) -> None:
    wrong = "sk-wrong-77"
    words = failure(embedder_of(api_key=wrong))
    assert "did not accept the key (401)" in words
    assert wrong not in words


def test_a_closed_embedder_says_so(embedder_of: MakeEmbedder) -> None:
    embedder = embedder_of()
    embedder.close()
    assert "closed" in failure(embedder)


def test_openais_key_never_goes_to_another_host(
    server: FakeOpenAIServer, embedder_of: MakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-for-openai-only")
    failure(embedder_of(api_key=None))
    assert server.requests[0].headers["authorization"] == "Bearer none"


def test_without_an_address_the_librarys_own_settings_hold(
    server: FakeOpenAIServer, embedder_of: MakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    assert embedder_of(api_key=None, base_url=None).embed(["hello"]).shape == (1, 16)


def test_a_missing_key_is_a_missing_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(InvalidSetting, match="api_key: is missing"):
        OpenAIEmbedder("text-embedding-3-small")


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("model", {"model": ""}),
        ("dimension", {"dimension": 0}),
        ("dimension", {"model": "text-embedding-3-small", "dimension": 3072}),
        ("dimension", {"model": "text-embedding-ada-002", "dimension": 512}),
        ("timeout", {"timeout": 0}),
        ("batch", {"batch": 0}),
        ("batch", {"batch": 4096}),
        ("base_url", {"base_url": "localhost:8000/v1"}),
        ("base_url", {"base_url": "http://"}),
        ("base_url", {"base_url": "http://[::1"}),
        ("base_url", {"base_url": "http://host:port/v1"}),
        ("api_key", {"api_key": ""}),
        ("api_key", {"api_key": "sk-secret\n"}),
        ("api_key", {"api_key": "sk-secrét"}),
    ],
)
def test_bad_settings_are_refused_by_name(
    embedder_of: MakeEmbedder, field: str, settings: dict[str, object]
) -> None:
    with pytest.raises(InvalidSetting) as caught:
        embedder_of(**settings)
    assert caught.value.field == field
    assert "secr" not in str(caught.value)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtra, match=r"octopus-memory\[openai\]"):
        OpenAIEmbedder("text-embedding-3-small", api_key=KEY)
