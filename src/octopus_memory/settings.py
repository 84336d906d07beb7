"""Settings, read from the environment and `octopus.toml`. No other module reads either."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from .domain.errors import InvalidSetting
from .domain.policy import MemoryConfig, changed
from .setting_values import READERS, Secret, as_json, as_table, as_text, setting

FILE = Path("octopus.toml")
_PREFIX = "octopus_"
_NESTED = "__"
_ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtSettings:
    """The JWTs that the service accepts, and the meaning of their claims."""

    jwks_url: str | None = None
    """The URL of the issuer's keys; without it no JWT is accepted."""
    issuer: str | None = None
    audience: str | None = None
    tenant_claim: str = "tenant"
    role_claim: str = "role"
    user_claim: str = "sub"
    agents_claim: str = "agents"

    def __post_init__(self) -> None:
        if self.jwks_url is not None and not (self.issuer and self.audience):
            raise InvalidSetting(
                "server.jwt", "jwks_url must be set together with issuer and audience"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The service's own settings."""

    host: str = "127.0.0.1"
    port: int = setting(int, 8765, least=0, most=65_535)
    processes: int = setting(int, 1, least=1)
    """Processes that serve requests."""
    threads: int = setting(int, 40, least=1)
    """Requests that each process handles at once."""
    max_connections: int = setting(int, 1_000, least=1)
    """Connections per process; further ones are closed."""
    max_header_bytes: int = setting(int, 64 * 1024, least=1_024)
    """Bytes of a request's path and headers."""
    header_seconds: float = setting(float, 10.0, above=0)
    """Seconds that a request's headers may take."""
    max_body_bytes: int = setting(int, 16 * 1024 * 1024, least=1_024)
    max_import_part_chars: int = setting(int, 32 * 1024 * 1024, least=1_024)
    """Characters of one line of an export, or of one conversation of a transcript."""
    imports_per_tenant: int = setting(int, 2, least=1)
    """Imports of a tenant that each process handles at once."""
    idle_upload_seconds: float = setting(float, 30.0, above=0)
    """Seconds that an upload may pause."""
    requests_per_minute: int = setting(int, 60_000, least=1)
    """Requests per credential."""
    wrong_credentials_allowed: int = setting(int, 20, least=1)
    """Wrong credentials per address, before the next ones are answered 429 for a minute."""
    trusted_proxies: str = ""
    """Addresses and networks whose X-Forwarded-For names the caller, separated by commas."""
    mcp_origins: str = ""
    """Origins of the pages that may call `/mcp` from a browser, separated by commas."""
    telemetry: bool = False
    """True makes each request an OpenTelemetry span."""
    jwt: JwtSettings = field(default_factory=JwtSettings)

    def __post_init__(self) -> None:
        if self.trusted_proxies:
            self._check_proxies()
        if not all(map(_is_origin, self.allowed_mcp_origins)):
            raise InvalidSetting(
                "server.mcp_origins",
                "must be origins, separated by commas, such as https://chat.example.com",
            )

    @property
    def allowed_mcp_origins(self) -> tuple[str, ...]:
        return tuple(each.strip() for each in self.mcp_origins.split(",") if each.strip())

    def _check_proxies(self) -> None:
        from ipaddress import ip_network

        for each in self.trusted_proxies.split(","):
            try:
                ip_network(each.strip())
            except ValueError as error:
                raise InvalidSetting(
                    "server.trusted_proxies",
                    "must be addresses or networks, separated by commas, such as 10.0.0.0/8",
                ) from error


def _is_origin(text: str) -> bool:
    scheme, _, host = text.partition("://")
    return bool(scheme and host) and not set(host) & set("/* ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Values come from the environment (`OCTOPUS_…`), else from `octopus.toml`, else from here."""

    database_url: str | None = None
    """The database; by default a file in the user's data folder."""
    api_key: Secret | None = setting(Secret)
    """The API key of a service that is used in place of a database."""
    pool_size: int = setting(int, 10, least=1)
    """Pooled connections to PostgreSQL or SQL Server."""
    statement_timeout_seconds: float = setting(float, 30.0, above=0)
    connect_timeout_seconds: float = setting(float, 10.0, above=0)
    sqlserver_serialize: str = "auto"
    """`auto`, `always` or `never`: one call of SQL Server's driver at a time."""
    embedder: str = "minilm"
    """`minilm`, `openai`, `fastembed`, `hashing`, or the name of an installed adapter."""
    summarizer: str = "extractive"
    """`extractive`, `openai`, or the name of an installed adapter."""
    tokenizer: str = "approximate"
    """`approximate`, `tiktoken:NAME`, or the path of a `tokenizer.json`."""
    index: str = "exact"
    """`exact`, `pgvector`, `qdrant`, or the name of an installed adapter."""
    qdrant_url: str = "http://localhost:6333"
    qdrant_api_key: Secret | None = setting(Secret)
    qdrant_timeout_seconds: int = setting(int, 5, least=1)
    """Seconds that one request to Qdrant may take."""
    qdrant_shard_number: int | None = setting(int, least=1)
    """Shards of a collection that is created, or of each shard key; by default Qdrant's."""
    qdrant_replication_factor: int | None = setting(int, least=1)
    """Copies of each shard; by default Qdrant's."""
    qdrant_write_consistency_factor: int | None = setting(int, least=1)
    """Copies that must confirm a write; by default Qdrant's."""
    qdrant_shard_keys: int = setting(int, 0, least=0)
    """Shard keys over which scopes are distributed; 0 distributes single points."""
    redactor: str = "patterns"
    """`patterns`, `presidio`, or an installed adapter's name; used if an agent's settings ask."""
    phone_region: str = "US"
    """The country of phone numbers without a country code."""
    keys: str = "off"
    """`off`, `local` or `vault`: where the keys are that seal what is stored of each scope."""
    keys_path: str | None = None
    """The file of the local key store, outside the data folder; by default in a folder of its own.
    """
    keys_master_file: str | None = None
    """The file of the master key; by default `master.key` beside the key store."""
    keys_master: Secret | None = setting(Secret)
    """The master key itself, in place of a file."""
    keys_kms: str | None = None
    """`aws:KEY`: the key of a KMS that wraps the master key."""
    keys_cache_seconds: float = setting(float, 60.0, least=0)
    """Seconds that a process uses a key without asking for it again."""
    keys_backup_days: int = setting(int, 30, least=0)
    """Days after which a backup of the key store is removed; 0 if there are none."""
    keys_backup_folder: str | None = None
    """Where `octopus scope-keys backup` puts them, and `octopus doctor` looks for them."""
    vault_url: str | None = None
    vault_token: Secret | None = setting(Secret)
    vault_token_file: str | None = None
    """The file of Vault's token, read before each request."""
    vault_mount: str = "transit"
    vault_namespace: str | None = None
    vault_ca_file: str | None = None
    vault_timeout_seconds: float = setting(float, 5.0, above=0)
    openai_base_url: str | None = setting(str, also="openai_base_url")
    openai_api_key: Secret | None = setting(Secret, also="openai_api_key")
    embedding_model: str | None = None
    """The model of `openai` or `fastembed`; defaults to the embedder's own."""
    embedding_folder: str | None = None
    """The folder of `fastembed`'s models, to which it also downloads them."""
    embedding_dimension: int | None = setting(int, least=1)
    summary_model: str = "gpt-4o-mini"
    chat_model: str = "gpt-4o-mini"
    embedder_threads: int | None = setting(int, least=1)
    cache_mb: int = setting(int, 256, least=1)
    """Megabytes for cached scopes."""
    exact_rows: int = setting(int, 120_000, least=0)
    """Turns and summaries above which the exact index does not load a scope whole."""
    close_timeout_seconds: float = setting(float, 8.0, above=0)
    """Seconds that closing waits for a model's summary."""
    context_timeout_seconds: float = setting(float, 2.0, above=0)
    """Seconds that an integration's agent waits for its memory before it goes on without it."""
    audit_reads: bool = False
    """True records reads in the audit log, too."""
    background: bool = True
    """True runs the pending work in a thread of this process."""
    retention_schedule: str = "0 2 * * *"
    """The schedule of retention, as a cron expression in UTC; empty for none."""
    retention_compact: bool = True
    """True rewrites the files after a retention run that removed rows."""
    server: ServerSettings = field(default_factory=ServerSettings)
    memory: dict[str, Any] = field(default_factory=dict)
    """Default settings of every agent: the tables of `MemoryConfig`."""

    def chosen(self) -> list[str]:
        """The names of settings that were set."""
        usual = Settings()
        names = [each.name for each in fields(self)]
        return [name for name in names if getattr(self, name) != getattr(usual, name)]

    @property
    def url(self) -> str:
        return self.database_url or default_url()

    def defaults(self, given: MemoryConfig | None = None) -> MemoryConfig:
        """Return the default settings of every agent, overridden by `given`."""
        try:
            usual = MemoryConfig.from_dict(self.memory)
        except InvalidSetting as error:
            raise InvalidSetting(f"memory.{error.field}", error.problem) from error
        if given is None:
            return usual
        return MemoryConfig.from_dict(changed(usual.overrides(), given.overrides()))


def default_url() -> str:
    import platformdirs

    folder = Path(platformdirs.user_data_dir("octopus-memory", appauthor=False))
    return f"sqlite:///{quote(str(folder / 'memory.db'))}"


def load(**given: Any) -> Settings:
    """Load the settings. `given` overrides every source; None counts as not given.

    :raises InvalidSetting: naming the invalid value
    """
    file = _file()
    whole = _over(file, _environment(file))
    whole |= {name: value for name, value in given.items() if value is not None}
    settings: Settings = _read(Settings, whole, "")
    return settings


class Sourced(NamedTuple):
    """A setting and the source of its value."""

    name: str
    value: Any
    source: str


def sources() -> list[Sourced]:
    """Return every setting with its value and source."""
    settings = load()
    file = _file()
    given = {_ENVIRONMENT: _environment(file), str(FILE): file}
    found = []
    for name, value in _flat("", settings):
        path = name.split(".")
        source = next((where for where, values in given.items() if _has(values, path)), "default")
        shown = settings.url if name == "database_url" else value
        found.append(Sourced(name=name, value=shown, source=source))
    return found


def _file() -> dict[str, Any]:
    try:
        whole = FILE.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        problem = f"cannot be read ({error.strerror}): it must be a file that you may read"
        raise InvalidSetting(str(FILE), problem) from error
    import tomllib

    try:
        return tomllib.loads(whole.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        # The parser's message names the line.
        raise InvalidSetting(str(FILE), str(error)) from error


def _environment(file: Mapping[str, Any]) -> dict[str, Any]:
    """Read `OCTOPUS_NAME`, and `OCTOPUS_TABLE__NAME` for a table, which may also be JSON."""
    variables = {
        name.lower(): value
        for name, value in os.environ.items()
        if name.lower().startswith((_PREFIX, "openai_"))
    }
    given: dict[str, Any] = {}
    for each in fields(Settings):
        name = _PREFIX + each.name
        if _is_table(each):
            if table := _from_variables(each, variables):
                given[each.name] = table
        elif name in variables:
            given[each.name] = variables[name]
        elif each.metadata.get("also") in variables:
            given[each.name] = variables[each.metadata["also"]]
    if _is_for_openai_alone(variables, file):
        given.pop("openai_api_key", None)
    tables = tuple(_PREFIX + each.name + _NESTED for each in fields(Settings) if _is_table(each))
    for name in variables.keys() - {_PREFIX + each.name for each in fields(Settings)}:
        if name.startswith(_PREFIX) and not name.startswith(tables):
            _doubt(name)
    return given


def _is_for_openai_alone(variables: Mapping[str, str], file: Mapping[str, Any]) -> bool:
    """Return whether the key is `OPENAI_API_KEY`, but the address is Octopus's own setting.

    A key for every program must not be sent to an endpoint that is set for this one.
    """
    address = "openai_base_url"
    ours = variables.get(_PREFIX + address) or (address not in variables and file.get(address))
    return bool(ours) and f"{_PREFIX}openai_api_key" not in variables


@cache
def _doubt(name: str) -> None:
    """Log each variable that looks like a misspelled setting, once."""
    import logging

    known = [each.name for each in fields(Settings)]
    known += [f"server{_NESTED}{each.name}" for each in fields(ServerSettings)]
    if near := _nearest(name.removeprefix(_PREFIX), known, cutoff=0.85):
        said, meant = name.upper(), (_PREFIX + near).upper()
        logging.getLogger(__name__).warning("%s is not a setting: did you mean %s?", said, meant)


def _nearest(name: str, known: Sequence[str], *, cutoff: float) -> str | None:
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, known, n=1, cutoff=cutoff)), None)


def _from_variables(each: Field[Any], variables: Mapping[str, str]) -> dict[str, Any]:
    name = _PREFIX + each.name
    table: dict[str, Any] = _checked(as_table, variables.get(name, {}), each.name)
    for key in sorted(variables):
        if key.startswith(name + _NESTED):
            inner = table
            *path, last = key.removeprefix(name + _NESTED).split(_NESTED)
            for part in path:
                below = inner.get(part)
                inner[part] = inner = dict(below) if isinstance(below, Mapping) else {}
            value = as_json(variables[key])
            # JSON is parsed only if the type is not known here, because `5` may be a text.
            guess = each.default_factory is dict or isinstance(value, dict)
            inner[last] = value if guess else variables[key]
    return table


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two tables recursively; `above` wins."""
    both = dict(below)
    for name, value in above.items():
        other = both.get(name, {})
        tables = isinstance(value, Mapping) and isinstance(other, Mapping)
        both[name] = _over(other, value) if tables else value
    return both


def _read(kind: Any, given: Any, path: str) -> Any:
    known = {each.name: each for each in fields(kind)}
    for name in given:
        if name not in known:
            near = _nearest(name, list(known), cutoff=0.6)
            remedy = (
                f"did you mean {_below(path, near)}?" if near else "remove it, or check its name"
            )
            raise InvalidSetting(_below(path, name), f"is not a setting: {remedy}")
    return kind(
        **{name: _value(known[name], value, _below(path, name)) for name, value in given.items()}
    )


def _value(each: Field[Any], given: Any, path: str) -> Any:
    if is_dataclass(each.default_factory):
        return _read(each.default_factory, _checked(as_table, given, path), path)
    return _checked(_reader(each), given, path)


def _checked(read: Callable[[Any], Any], given: Any, path: str) -> Any:
    try:
        return read(given)
    except ValueError as error:
        raise InvalidSetting(path, str(error)) from None


def _reader(each: Field[Any]) -> Callable[[Any], Any]:
    told: Callable[[Any], Any] | None = each.metadata.get("read")
    if told is not None:
        return told
    if each.default is None:
        return as_text
    return as_table if _is_table(each) else READERS[type(each.default)]


def _is_table(each: Field[Any]) -> bool:
    return each.default_factory is not MISSING


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else str(name)


def _flat(prefix: str, table: Any) -> Iterator[tuple[str, Any]]:
    for each in fields(table):
        value = getattr(table, each.name)
        if is_dataclass(value):
            yield from _flat(f"{prefix}{each.name}.", value)
        else:
            yield prefix + each.name, value


def _has(given: Mapping[str, Any], path: Sequence[str]) -> bool:
    for part in path:
        if not isinstance(given, Mapping) or part not in given:
            return False
        given = given[part]
    return True
