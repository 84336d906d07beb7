"""Settings to a memory: the only place that knows the adapters.

Adapters of others are found by entry points, in the groups `octopus_memory.stores` (by the URL's
scheme), `octopus_memory.embedders` and `octopus_memory.summarizers` (by name). Each is a callable
that takes the `Settings`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, quote, unquote, urlsplit

from .adapters.analyzers.snowball import SnowballAnalyzer
from .adapters.indexes.exact import ExactIndex
from .adapters.summarizers.extractive import ExtractiveSummarizer
from .domain.calibration import Calibration
from .domain.errors import InvalidSetting
from .domain.policy import MemoryConfig
from .engine.memory import Memory
from .engine.parts import Parts, Timeouts
from .ports.seams import Clock, Embedder, Summarizer, TokenCounter
from .ports.store import EpisodeStore

if TYPE_CHECKING:
    from .settings import Settings


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class EpisodicMemory(Memory):
    """Remembers what each user said, recalls what matters, and forgets when asked."""

    @classmethod
    def open(
        cls,
        url: str | Path | None = None,
        *,
        embedder: Embedder | str | None = None,
        summarizer: Summarizer | str | None = None,
        counter: TokenCounter | None = None,
        clock: Clock | None = None,
        config: MemoryConfig | None = None,
        background: bool | None = None,
    ) -> Self:
        """Open the memory at a URL such as `sqlite:///memory.db`, or at a file's path.

        What is not given comes from the settings: the environment, `octopus.toml`, or defaults
        that need neither a key nor a server.

        :raises InvalidSetting: for a value that cannot be used
        :raises StoreError: when the database cannot be opened
        """
        # Settings and stores bring large libraries: whoever only imports Octopus need not wait.
        from .settings import load

        settings = load(
            database_url=f"sqlite:///{quote(str(url))}" if isinstance(url, Path) else url,
            embedder=embedder if isinstance(embedder, str) else None,
            summarizer=summarizer if isinstance(summarizer, str) else None,
            background=background,
        )
        parts = build(
            settings,
            embedder=None if isinstance(embedder, str) else embedder,
            summarizer=None if isinstance(summarizer, str) else summarizer,
            counter=counter,
            clock=clock,
            config=config,
        )
        reads_only = getattr(parts.store, "read_only", False)
        try:
            return cls(parts, run_in_background=settings.background and not reads_only)
        except BaseException:
            parts.close()
            raise


def build(
    settings: Settings,
    *,
    embedder: Embedder | None = None,
    summarizer: Summarizer | None = None,
    counter: TokenCounter | None = None,
    clock: Clock | None = None,
    config: MemoryConfig | None = None,
) -> Parts:
    """The parts that the settings name, with those that are given in their place."""
    embedder = embedder or make_embedder(settings)
    summarizer = summarizer or make_summarizer(settings)
    counter = counter or make_counter(settings)
    defaults = config or settings.defaults()
    clock = clock or SystemClock()
    store = open_store(settings, clock)
    return Parts(
        store=store,
        index=ExactIndex(store, cache_bytes=settings.cache_mb * 1024 * 1024),
        embedder=embedder,
        analyzer=SnowballAnalyzer(),
        counter=counter,
        clock=clock,
        extractive=ExtractiveSummarizer(),
        summarizer=summarizer,
        calibration=getattr(embedder, "calibration", None) or Calibration.default(),
        defaults=defaults,
        timeouts=Timeouts(at_close=settings.close_timeout_seconds),
    )


def open_store(settings: Settings, clock: Clock | None = None) -> EpisodeStore:
    scheme, separator, _ = settings.url.partition(":")
    if not separator or len(scheme) == 1:
        raise InvalidSetting(
            "database_url", "is no URL: write sqlite:///memory.db, with three slashes"
        )
    if scheme == "sqlite":
        return _open_sqlite(settings.url, clock)
    store: EpisodeStore = _installed("stores", scheme, "database_url", ("sqlite",))(settings)
    return store


def _open_sqlite(url: str, clock: Clock | None) -> EpisodeStore:
    """Three slashes and a relative path, four and an absolute one; `?mode=ro` only reads."""
    from .adapters.stores.sqlite import SqliteStore

    split = urlsplit(url)
    if split.netloc:
        raise InvalidSetting(
            "database_url", "has a host: write sqlite:///memory.db, with three slashes"
        )
    path = unquote(split.path.removeprefix("/"))
    options = parse_qs(split.query)
    if set(options) - {"mode"} or options.get("mode", ["ro"]) != ["ro"]:
        raise InvalidSetting("database_url", "only ?mode=ro may follow an SQLite path")
    return SqliteStore(path or ":memory:", read_only="mode" in options, clock=clock)


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

            return OpenAIEmbedder(
                settings.embedding_model,
                dimension=settings.embedding_dimension,
                base_url=settings.openai_base_url,
                api_key=_secret(settings),
            )
        case name:
            known = ("minilm", "hashing", "openai")
            made: Embedder = _installed("embedders", name, "embedder", known)(settings)
            return made


def make_summarizer(settings: Settings) -> Summarizer | None:
    """The model's summarizer; None where the extractive one is all there is."""
    match settings.summarizer:
        case "extractive":
            return None
        case "openai":
            from .adapters.summarizers.openai import OpenAISummarizer

            return OpenAISummarizer(
                settings.summary_model,
                base_url=settings.openai_base_url,
                api_key=_secret(settings),
            )
        case name:
            known = ("extractive", "openai")
            made: Summarizer = _installed("summarizers", name, "summarizer", known)(settings)
            return made


def make_counter(settings: Settings) -> TokenCounter:
    kind, _, name = settings.tokenizer.partition(":")
    match kind:
        case "approximate":
            from .adapters.tokens.approximate import ApproximateCounter

            return ApproximateCounter()
        case "tiktoken":
            from .adapters.tokens.tiktoken import TiktokenCounter

            return TiktokenCounter(name)
        case _:
            from .adapters.tokens.tokenizer import TokenizerCounter

            return TokenizerCounter(settings.tokenizer)


def _secret(settings: Settings) -> str | None:
    key = settings.openai_api_key
    return None if key is None else key.get_secret_value()


def _installed(group: str, name: str, field: str, known: tuple[str, ...]) -> Any:
    found = entry_points(group=f"octopus_memory.{group}", name=name)
    for entry in found:
        return entry.load()
    raise InvalidSetting(
        field,
        f"{name!r} is not known: there are {', '.join(known)}, and none of that name is installed",
    )
