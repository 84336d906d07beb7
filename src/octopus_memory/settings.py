"""The only reader of the environment and of `octopus.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import platformdirs
from pydantic import AliasChoices, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from .domain.errors import InvalidSetting
from .domain.policy import MemoryConfig

FILE = Path("octopus.toml")


class Settings(BaseSettings):
    """Each value comes from the environment (`OCTOPUS_…`), else `octopus.toml`, else here."""

    model_config = SettingsConfigDict(
        env_prefix="OCTOPUS_", env_nested_delimiter="__", toml_file=FILE, extra="forbid"
    )

    database_url: str | None = None
    """Where memories are kept; without it, a file in the user's data folder."""
    embedder: str = "minilm"
    """`minilm`, `openai`, `hashing`, or the name of an installed adapter."""
    summarizer: str = "extractive"
    """`extractive`, `openai`, or the name of an installed adapter."""
    tokenizer: str = "approximate"
    """`approximate`, `tiktoken:NAME`, or the path of a `tokenizer.json`."""
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
    background: bool = True
    """Whether this process does pending work in a thread of its own."""
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
