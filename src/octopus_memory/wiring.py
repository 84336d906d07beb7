"""Builds a memory from the settings; the only module that knows the adapters.

Third-party adapters are found by entry points, in the groups `octopus_memory.stores` (by the URL's
scheme), `octopus_memory.embedders`, `octopus_memory.summarizers`, `octopus_memory.redactors` and
`octopus_memory.indexes` (by name). Each is a callable that takes the `Settings`; an index takes the
store as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from .domain.errors import InvalidInput, InvalidSetting, StoreUnavailable
from .domain.policy import MemoryConfig
from .domain.search.scoring import Calibration
from .engine.core.runtime import Runtime, Timeouts
from .engine.memory import Memory
from .ports.admin import DatabaseReport
from .ports.index import RecallIndex
from .ports.models import Analyzer, Clock, Embedder, Redactor, Summarizer, TokenCounter
from .ports.privacy import Schedule
from .ports.store import EpisodeStore
from .wiring_keys import check_index, check_store, make_ring

if TYPE_CHECKING:
    from .adapters.stores.postgres.distribute import Distribution
    from .adapters.stores.sql.move import MoveReport
    from .remote import RemoteMemory
    from .settings import Settings


Part = TypeVar("Part")


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class EpisodicMemory(Memory):
    """Remembers what each user said, recalls what matters, and forgets when asked."""

    @classmethod
    def connect(
        cls, url: str, *, api_key: str | None = None, timeout: float = 30.0, retries: int = 3
    ) -> RemoteMemory:
        """Connect to a service, whose scopes have the calls of an embedded memory.

        Calls that fail on the network are retried up to `retries` times if that is safe: for reads,
        and for writes, which carry an idempotency key.
        """
        from .remote import RemoteMemory

        return RemoteMemory(url, api_key, timeout=timeout, retries=retries)

    @classmethod
    def open(
        cls,
        url: str | Path | None = None,
        *,
        embedder: Embedder | str | None = None,
        summarizer: Summarizer | str | None = None,
        redactor: Redactor | None = None,
        counter: TokenCounter | None = None,
        clock: Clock | None = None,
        config: MemoryConfig | None = None,
        background: bool | None = None,
    ) -> Self:
        """Open the memory at a URL such as `sqlite:///memory.db`, or at a file's path: `memory.db`.

        Arguments default to the settings: the environment, `octopus.toml`, or defaults that need
        neither a key nor a server. An embedder or summarizer that you pass stays open when the
        memory is closed, because other memories may share it.

        :raises InvalidSetting: for an invalid value
        :raises StoreError: when the database cannot be opened
        """
        # Imported here, because settings and stores load large libraries.
        from .adapters.stores.sqlite.url import as_url
        from .settings import load

        if url == "":
            raise InvalidSetting(
                "url", "must not be empty: write sqlite:///memory.db, or leave it out"
            )
        settings = load(
            database_url=as_url(url),
            embedder=embedder if isinstance(embedder, str) else None,
            summarizer=summarizer if isinstance(summarizer, str) else None,
            background=background,
        )
        runtime = build(
            settings,
            embedder=None if isinstance(embedder, str) else embedder,
            summarizer=None if isinstance(summarizer, str) else summarizer,
            redactor=redactor,
            counter=counter,
            clock=clock,
            config=config,
        )
        reads_only = runtime.store.read_only
        try:
            return cls(runtime, run_in_background=settings.background and not reads_only)
        except BaseException:
            runtime.close()
            raise


def build(
    settings: Settings,
    *,
    embedder: Embedder | None = None,
    summarizer: Summarizer | None = None,
    redactor: Redactor | None = None,
    counter: TokenCounter | None = None,
    clock: Clock | None = None,
    config: MemoryConfig | None = None,
) -> Runtime:
    """Build the runtime that the settings describe, with the given adapters in place of theirs."""
    from .adapters.summarizers.extractive import ExtractiveSummarizer

    _check_can("embedder", embedder, "embed")
    _check_can("summarizer", summarizer, "summarize")
    _check_can("counter", counter, "count")
    _check_can("clock", clock, "now")
    _check_can("redactor", redactor, "find")
    if not isinstance(config, MemoryConfig | None):
        raise InvalidSetting("config", f"must be a MemoryConfig, not {type(config).__name__}")
    # Before the store, because an invalid setting must not create a database.
    counter = counter or make_counter(settings)
    defaults, schedule = settings.defaults(config), make_schedule(settings)
    with ExitStack() as made:
        embedder = embedder or _ours(made, make_embedder(settings))
        summarizer = summarizer or _ours(made, make_summarizer(settings))
        clock = clock or SystemClock()
        store = _ours(made, open_store(settings, clock))
        check_whole(store)
        return Runtime(
            store=store,
            index=_ours(made, make_index(settings, store)),
            embedder=embedder,
            analyzer=make_analyzer(),
            counter=counter,
            clock=clock,
            extractive=ExtractiveSummarizer(),
            summarizer=summarizer,
            calibration=getattr(embedder, "calibration", None) or Calibration.default(),
            defaults=defaults,
            timeouts=Timeouts(at_close=settings.close_timeout_seconds),
            make_redactor=cache(lambda: redactor or make_redactor(settings)),
            schedule=schedule,
            compact_after_retention=settings.retention_compact,
            audit_reads=settings.audit_reads,
            made=made.pop_all(),
        )


def _ours(made: ExitStack, part: Part) -> Part:
    """Register an adapter to be closed with the memory."""
    close = getattr(part, "close", None)
    if close is not None:
        made.callback(close)
    return part


def _check_can(field: str, given: object, method: str) -> None:
    """Check an adapter's method now, not at the first call that needs it."""
    if given is None or (callable(getattr(given, method, None)) and not isinstance(given, type)):
        return
    what = given.__name__ if isinstance(given, type) else f"a value of type {type(given).__name__}"
    raise InvalidSetting(field, f"must be an object with {method}(), not {what}")


def make_index(settings: Settings, store: EpisodeStore) -> RecallIndex:
    """Make the index that recall searches."""
    check_index(settings)
    cache_bytes = settings.cache_mb * 1024 * 1024
    match settings.index:
        case "exact":
            from .adapters.indexes.exact import ExactIndex

            return ExactIndex(store, exact_rows=settings.exact_rows, cache_bytes=cache_bytes)
        case "pgvector":
            from .adapters.indexes.pgvector import PgVectorIndex

            return PgVectorIndex(store, cache_bytes=cache_bytes)
        case "qdrant":
            from .adapters.indexes.qdrant.collection import Layout
            from .adapters.indexes.qdrant.index import QdrantIndex, connect

            layout = Layout(
                shard_number=settings.qdrant_shard_number,
                replication_factor=settings.qdrant_replication_factor,
                write_consistency_factor=settings.qdrant_write_consistency_factor,
                shard_keys=settings.qdrant_shard_keys,
            )
            key = settings.qdrant_api_key
            client = connect(
                settings.qdrant_url,
                api_key=None if key is None else key.get_secret_value(),
                timeout=settings.qdrant_timeout_seconds,
            )
            return QdrantIndex(store, client, layout=layout, cache_bytes=cache_bytes)
        case name:
            known = ("exact", "pgvector", "qdrant")
            made: RecallIndex = _installed("indexes", name, "index", known)(settings, store)
            return made


def make_analyzer() -> Analyzer:
    """Make the analyzer that splits text into terms, in every language it knows."""
    from .adapters.analyzers.snowball import SnowballAnalyzer

    return SnowballAnalyzer()


def make_schedule(settings: Settings) -> Schedule | None:
    """Make the schedule of retention; None for no schedule."""
    if not settings.retention_schedule.strip():
        return None
    from .adapters.schedules import CronSchedule

    return CronSchedule(settings.retention_schedule)


def check_whole(store: EpisodeStore) -> None:
    """Check that no move into the database is unfinished.

    :raises StoreUnavailable: for the target of an unfinished move
    """
    if store.is_being_filled():
        raise StoreUnavailable(
            "a move into this database is not finished: run octopus migrate again, with the same "
            "--from and --to"
        )


def move(
    source: str, target: str, progress: Callable[[int, int], None] | None = None
) -> MoveReport:
    """Copy a whole database into an empty one, and compare the two.

    :raises InvalidInput: when the target holds something else
    :raises StoreError: when either fails, or they differ in the end
    """
    from .adapters.stores.sql.move import move as move_rows
    from .adapters.stores.sql.store import SqlStore
    from .settings import load

    with ExitStack() as stack:
        ends = []
        for field, url in (("from", _only_to_read(source)), ("to", target)):
            store = stack.enter_context(closing(open_store(load(database_url=url))))
            if not isinstance(store, SqlStore):
                raise InvalidInput(
                    field, "must be an SQL database: export and import the users instead"
                )
            ends.append(store)
        return move_rows(ends[0], ends[1], progress)


def distribute(
    url: str, *, shards: int = 32, tell: Callable[[str], None] | None = None
) -> Distribution:
    """Distribute a PostgreSQL database over the nodes of Citus, or continue to.

    `url` is the coordinator's, for the owner of the tables. `tell` is called with each step.

    :raises InvalidInput: for a number of shards that is not from 1 to 1024
    :raises StoreError: where something that it needs is missing, or a step fails
    """
    from .adapters.stores.postgres.store import PostgresStore, distribute_database
    from .settings import load

    def opened() -> PostgresStore:
        store = open_store(load(database_url=url))
        assert isinstance(store, PostgresStore)
        return store

    return distribute_database(url, opened, shards, tell)


def _only_to_read(url: str) -> str:
    """Open an SQLite source read-only."""
    return f"{url}?mode=ro" if url.startswith("sqlite:") and "?" not in url else url


def open_store(settings: Settings, clock: Clock | None = None) -> EpisodeStore:
    scheme, separator, _ = settings.url.partition(":")
    if not separator or len(scheme) == 1:
        raise InvalidSetting(
            "database_url", "is not a URL: write sqlite:///memory.db, with three slashes"
        )
    given: dict[str, Any] = {"clock": clock, "ring": make_ring(settings)}
    if scheme == "sqlite":
        from .adapters.stores.sqlite.store import SqliteStore
        from .adapters.stores.sqlite.url import read_url

        place = read_url(settings.url)
        return SqliteStore(place.path, read_only=place.read_only, **given)
    if scheme in {"postgresql", "postgres"}:
        from .adapters.stores.postgres.store import PostgresStore

        return PostgresStore(settings.url, **given, **_server_options(settings))
    if scheme == "sqlserver":
        from .adapters.stores.sqlserver.store import SqlServerStore

        options = {"serialize": settings.sqlserver_serialize, **_server_options(settings)}
        return SqlServerStore(settings.url, **given, **options)
    known = ("sqlite", "postgresql", "sqlserver")
    check_store(settings, scheme)
    store: EpisodeStore = _installed("stores", scheme, "database_url", known)(settings)
    return store


def report_database(settings: Settings) -> DatabaseReport:
    """Open a database, write to it without changing anything, and return what it says.

    :raises StoreError: when it, or one of its nodes, cannot be opened or written
    """
    with closing(open_store(settings)) as store:
        nodes = store.nodes()
        if silent := [name for name, answers in nodes.items() if not answers]:
            raise StoreUnavailable(
                f"of its {len(nodes)} nodes these do not answer: {', '.join(silent)}; calls about "
                "users there fail, all others are served"
            )
        if not store.read_only:
            # No key is that old.
            store.prune_idempotency_keys(before=datetime(1970, 1, 1, tzinfo=UTC))
        ask = getattr(store, "why_not_held_by_security", None)
        return DatabaseReport(
            stats=store.stats(),
            state=store.state(),
            read_only=store.read_only,
            row_security_gap=None if ask is None else ask(),
            nodes=nodes,
            key_gaps=store.key_gaps(),
        )


def sqlserver_driver_check(settings: Settings) -> str | None:
    """Return what SQL Server's driver needs on this machine; None if it is safe with threads."""
    from .adapters.stores.sqlserver import engine, serial

    url = engine.address(settings.url)
    options = {name: str(value) for name, value in url.query.items()}
    if not serial.is_needed("auto", options):
        return None
    if serial.is_needed(settings.sqlserver_serialize, options):
        return "driver calls are made one at a time, because with TLS it fails on arm64"
    return "with TLS on arm64 the driver can end this process, and sqlserver_serialize is never"


def remove_if_unused(path: Path) -> bool:
    """Remove an SQLite file that holds nothing and that no other connection has open."""
    from .adapters.stores.sqlite import url

    return url.remove_if_unused(path)


def _server_options(settings: Settings) -> dict[str, Any]:
    return {
        "pool_size": settings.pool_size,
        "statement_timeout_seconds": settings.statement_timeout_seconds,
        "connect_timeout_seconds": settings.connect_timeout_seconds,
    }


def make_embedder(settings: Settings) -> Embedder:
    match settings.embedder:
        case "minilm":
            from .adapters.embedders.minilm import MiniLMEmbedder

            return MiniLMEmbedder(threads=settings.embedder_threads)
        case "hashing":
            from .adapters.embedders.hashing import HashingEmbedder

            return HashingEmbedder()
        case "openai":
            from .adapters.embedders.openai import OpenAIEmbedder

            with _named_as_set(
                model="embedding_model", dimension="embedding_dimension", **_OPENAI_NAMES
            ):
                return OpenAIEmbedder(
                    settings.embedding_model or "text-embedding-3-small",
                    dimension=settings.embedding_dimension,
                    base_url=settings.openai_base_url,
                    api_key=_secret(settings),
                )
        case "fastembed":
            from .adapters.embedders.fastembed import FastEmbedEmbedder

            model, size = settings.embedding_model, settings.embedding_dimension
            folder, threads = settings.embedding_folder, settings.embedder_threads
            with _named_as_set(model="embedding_model", dimension="embedding_dimension"):
                return FastEmbedEmbedder(model, dimension=size, folder=folder, threads=threads)
        case name:
            known = ("minilm", "hashing", "openai", "fastembed")
            made: Embedder = _installed("embedders", name, "embedder", known)(settings)
            return made


@cache
def local_embedders() -> Mapping[str, Embedder]:
    """Return the embedders that send no text elsewhere and need nothing, by name."""
    from .settings import Settings

    return {name: make_embedder(Settings(embedder=name)) for name in ("minilm", "hashing")}


def make_summarizer(settings: Settings) -> Summarizer | None:
    """Make the model's summarizer; None if the extractive one is configured."""
    match settings.summarizer:
        case "extractive":
            return None
        case "openai":
            from .adapters.summarizers.openai import OpenAISummarizer

            with _named_as_set(model="summary_model", **_OPENAI_NAMES):
                return OpenAISummarizer(
                    settings.summary_model,
                    base_url=settings.openai_base_url,
                    api_key=_secret(settings),
                )
        case name:
            known = ("extractive", "openai")
            made: Summarizer = _installed("summarizers", name, "summarizer", known)(settings)
            return made


def make_redactor(settings: Settings) -> Redactor:
    match settings.redactor:
        case "patterns":
            from .adapters.redactors.patterns import PatternRedactor

            with _named_as_set(region="phone_region"):
                return PatternRedactor(settings.phone_region)
        case "presidio":
            from .adapters.redactors.presidio import PresidioRedactor

            return PresidioRedactor()
        case name:
            known = ("patterns", "presidio")
            made: Redactor = _installed("redactors", name, "redactor", known)(settings)
            return made


def make_counter(settings: Settings) -> TokenCounter:
    kind, _, name = settings.tokenizer.partition(":")
    match kind:
        case "approximate":
            from .adapters.tokens import ApproximateCounter

            return ApproximateCounter()
        case "tiktoken":
            from .adapters.tokens import TiktokenCounter

            with _named_as_set(encoding_or_model="tokenizer"):
                return TiktokenCounter(name)
        case _:
            from .adapters.tokens import TokenizerCounter

            with _named_as_set(path="tokenizer"):
                return TokenizerCounter(settings.tokenizer)


_OPENAI_NAMES = {"base_url": "openai_base_url", "api_key": "openai_api_key"}


@contextmanager
def _named_as_set(**names: str) -> Iterator[None]:
    """Rename the field of an adapter's error to the setting that the user knows."""
    try:
        yield
    except InvalidSetting as error:
        raise InvalidSetting(names.get(error.field, error.field), error.problem) from error


def _secret(settings: Settings) -> str | None:
    key = settings.openai_api_key
    return None if key is None else key.get_secret_value()


def _installed(group: str, name: str, field: str, known: tuple[str, ...]) -> Any:
    from importlib.metadata import entry_points

    found = entry_points(group=f"octopus_memory.{group}", name=name)
    for entry in found:
        return entry.load()
    raise InvalidSetting(
        field,
        f"{name!r} is not known: there are {', '.join(known)}, and none of that name is installed",
    )
