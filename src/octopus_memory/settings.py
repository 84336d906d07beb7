"""The only reader of the environment and of `octopus.toml`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import platformdirs
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from .domain.errors import InvalidSetting
from .domain.policy import MemoryConfig

FILE = Path("octopus.toml")


class JwtSettings(BaseModel):
    """Which JWTs the service takes as credentials, and what their claims mean."""

    model_config = ConfigDict(extra="forbid")

    jwks_url: str | None = None
    """Where the issuer publishes its keys; without it no JWT is taken."""
    issuer: str | None = None
    audience: str | None = None
    tenant_claim: str = "tenant"
    role_claim: str = "role"
    user_claim: str = "sub"
    agents_claim: str = "agents"

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.jwks_url is not None and not (self.issuer and self.audience):
            raise ValueError("jwks_url needs issuer and audience beside it")
        return self


class ServerSettings(BaseModel):
    """The service's own settings."""

    model_config = ConfigDict(extra="forbid")

    host: str = "127.0.0.1"
    port: int = Field(default=8765, ge=0, le=65_535)
    threads: int = Field(default=40, ge=1)
    """How many requests are worked on at once."""
    max_body_bytes: int = Field(default=16 * 1024 * 1024, ge=1_024)
    requests_per_minute: int = Field(default=60_000, ge=1)
    """For each credential."""
    wrong_credentials_allowed: int = Field(default=20, ge=1)
    """From one address; then it is not listened to for a minute."""
    telemetry: bool = False
    """Whether each request is a span for OpenTelemetry."""
    jwt: JwtSettings = Field(default_factory=JwtSettings)


class Settings(BaseSettings):
    """Each value comes from the environment (`OCTOPUS_…`), else `octopus.toml`, else here."""

    model_config = SettingsConfigDict(
        env_prefix="OCTOPUS_", env_nested_delimiter="__", toml_file=FILE, extra="forbid"
    )

    database_url: str | None = None
    """Where memories are kept; without it, a file in the user's data folder."""
    pool_size: int = Field(default=10, ge=1)
    """Connections to PostgreSQL or SQL Server that are kept open."""
    statement_timeout_seconds: float = Field(default=30, gt=0)
    connect_timeout_seconds: float = Field(default=10, gt=0)
    embedder: str = "minilm"
    """`minilm`, `openai`, `hashing`, or the name of an installed adapter."""
    summarizer: str = "extractive"
    """`extractive`, `openai`, or the name of an installed adapter."""
    tokenizer: str = "approximate"
    """`approximate`, `tiktoken:NAME`, or the path of a `tokenizer.json`."""
    index: str = "exact"
    """`exact`, `pgvector`, `qdrant`, or the name of an installed adapter."""
    qdrant_url: str = "http://localhost:6333"
    qdrant_api_key: SecretStr | None = None
    qdrant_timeout_seconds: int = Field(default=5, ge=1)
    """How long one request to Qdrant may take."""
    redactor: str = "patterns"
    """`patterns`, `presidio`, or the name of an installed adapter; used where an agent asks."""
    phone_region: str = "US"
    """Where phone numbers without a country code are from."""
    openai_base_url: str | None = Field(
        default=None, validation_alias=AliasChoices("OCTOPUS_OPENAI_BASE_URL", "openai_base_url")
    )
    openai_api_key: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("OCTOPUS_OPENAI_API_KEY", "OPENAI_API_KEY", "openai_api_key"),
    )
    embedding_model: str = "text-embedding-3-small"
    embedding_dimension: int | None = Field(default=None, ge=1)
    summary_model: str = "gpt-4o-mini"
    chat_model: str = "gpt-4o-mini"
    embedder_threads: int | None = Field(default=None, ge=1)
    cache_mb: int = Field(default=256, ge=1)
    """How much memory hot scopes may take."""
    close_timeout_seconds: float = Field(default=8.0, gt=0)
    """How long closing waits for a model's summary."""
    audit_reads: bool = False
    """Whether the audit log records reads too."""
    background: bool = True
    """Whether this process does pending work in a thread of its own."""
    retention_schedule: str = "0 2 * * *"
    """When retention runs in the background: a cron expression in UTC; empty for never."""
    retention_compact: bool = True
    """Whether files are rewritten after a retention run that removed something."""
    server: ServerSettings = Field(default_factory=ServerSettings)
    memory: dict[str, Any] = Field(default_factory=dict)
    """Default settings of every agent: the tables of `MemoryConfig`."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the same
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @classmethod
    def given_by(cls, kind: type[EnvSettingsSource | TomlConfigSettingsSource]) -> dict[str, Any]:
        """What one source says, by the names of the fields."""
        given = kind(cls)()
        for name, field in cls.model_fields.items():
            alias = field.validation_alias
            if isinstance(alias, AliasChoices):
                for choice in alias.choices:
                    if isinstance(choice, str) and choice in given:
                        given[name] = given[choice]
        return given

    @property
    def url(self) -> str:
        return self.database_url or default_url()

    def defaults(self) -> MemoryConfig:
        return MemoryConfig.from_dict(self.memory)


def default_url() -> str:
    folder = Path(platformdirs.user_data_dir("octopus-memory", appauthor=False))
    return f"sqlite:///{folder / 'memory.db'}"


def load(**given: Any) -> Settings:
    """The settings, with `given` before everything else; None counts as not given.

    :raises InvalidSetting: naming the value that cannot be used
    """
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "settings"
        raise InvalidSetting(field, first["msg"]) from None
    except ValueError as error:
        # A file that is no TOML: the parser's own message says where.
        raise InvalidSetting(str(FILE), str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Sourced:
    """A setting, and where its value came from."""

    name: str
    value: Any
    source: str


def sources() -> list[Sourced]:
    """Every setting that is in force: from the environment, the file, or the default."""
    settings = load()
    environment = Settings.given_by(EnvSettingsSource)
    file = Settings.given_by(TomlConfigSettingsSource)
    found = []
    for name, value in _flat("", settings):
        path = name.split(".")
        if _has(environment, path):
            source = "environment"
        elif _has(file, path):
            source = str(FILE)
        else:
            source = "default"
        shown = settings.url if name == "database_url" else value
        found.append(Sourced(name=name, value=shown, source=source))
    return found


def _flat(prefix: str, model: BaseModel) -> Iterator[tuple[str, Any]]:
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield prefix + name, value


def _has(given: Mapping[str, Any], path: Sequence[str]) -> bool:
    for part in path:
        if not isinstance(given, Mapping) or part not in given:
            return False
        given = given[part]
    return True
