"""Builds the key store that the settings describe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .domain.errors import InvalidSetting, KeyUnavailable
from .ports.scope_keys import ScopeKeys

if TYPE_CHECKING:
    from .adapters.keys.local import LocalKeys
    from .adapters.keys.masters import Masters
    from .adapters.stores.sql.key_ring import KeyRing
    from .settings import Settings


def make_ring(settings: Settings) -> KeyRing | None:
    """Make what a store seals with; None if nothing is sealed.

    :raises InvalidSetting: for an invalid value
    """
    keys = find_keys(settings)
    if keys is None:
        return None
    from .adapters.stores.sql.key_ring import KeyRing

    def begin() -> None:
        if settings.keys == "local" and not keys_path(settings).exists():
            init_keys(settings)

    return KeyRing(keys, seconds=settings.keys_cache_seconds, begin=begin)


def find_keys(settings: Settings) -> ScopeKeys | None:
    """Return the key store as it is, which need not exist yet; None if nothing is sealed.

    :raises InvalidSetting: for an invalid value
    """
    match settings.keys:
        case "off":
            return None
        case "local":
            return local_keys(settings)
        case "vault":
            return _vault_keys(settings)
    raise InvalidSetting("keys", "must be off, local or vault")


def init_keys(settings: Settings) -> None:
    """Make the local key store, and its master key unless there is one.

    :raises KeyUnavailable: when they cannot be written
    """
    store = local_keys(settings)
    if settings.keys_master is None:
        from .adapters.keys.masters import MasterFile

        masters = _masters(settings)
        if isinstance(masters, MasterFile):
            masters.create()
    store.init()


def check_index(settings: Settings) -> None:
    """Check that no index is set that would hold vectors outside the sealed rows.

    :raises InvalidSetting: for one that would
    """
    if settings.keys != "off" and settings.index != "exact":
        raise InvalidSetting(
            "index",
            f"must be exact while keys = {settings.keys}, because {settings.index} would hold "
            "vectors that no key seals, and a vector can be turned back into words",
        )


def check_store(settings: Settings, scheme: str) -> None:
    """Check that keys are off for a store of another package, which would seal nothing.

    :raises InvalidSetting: when they are on
    """
    if settings.keys != "off":
        raise InvalidSetting("keys", f"must be off, because the store {scheme} seals nothing")


def local_keys(settings: Settings) -> LocalKeys:
    """Return the local key store, whose file need not exist yet.

    :raises InvalidSetting: for an invalid value, or a file in the data folder
    """
    from .adapters.keys.local import LocalKeys, check_outside

    data = data_folder(settings)
    check_outside(keys_path(settings), data, "keys_path")
    if settings.keys_master is None:
        check_outside(master_path(settings), data, "keys_master_file")
    return LocalKeys(
        keys_path(settings),
        _masters(settings),
        backup_days=settings.keys_backup_days,
        backups=Path(settings.keys_backup_folder) if settings.keys_backup_folder else None,
        data=data,
    )


def keys_path(settings: Settings) -> Path:
    """Return the file of the local key store."""
    if settings.keys_path:
        return Path(settings.keys_path)
    import platformdirs

    # Not `octopus-memory`, which on some systems is also the folder of the data.
    return Path(platformdirs.user_config_dir("octopus-memory-keys", appauthor=False)) / "keys.db"


def master_path(settings: Settings) -> Path:
    """Return the file of the master key."""
    given = settings.keys_master_file
    return Path(given) if given else keys_path(settings).with_name("master.key")


def data_folder(settings: Settings) -> Path | None:
    """Return the folder of an SQLite file, which is backed up with all that is in it."""
    path = sqlite_path(settings.url)
    return None if path is None else path.absolute().parent


def sqlite_path(url: str) -> Path | None:
    """Return the file of an SQLite URL; None for another database and for one in memory."""
    from .adapters.stores.sqlite.url import read_url

    if url.partition(":")[0] != "sqlite":
        return None
    path = read_url(url).path
    return None if path == ":memory:" else Path(path)


def _masters(settings: Settings) -> Masters:
    from .adapters.keys.masters import MasterFile, MasterText

    if settings.keys_master is not None:
        if settings.keys_kms:
            raise InvalidSetting("keys_kms", "must be set with keys_master_file, not keys_master")
        return MasterText(settings.keys_master.get_secret_value())
    kms = None
    if settings.keys_kms:
        product, _, name = settings.keys_kms.partition(":")
        if product != "aws":
            raise InvalidSetting("keys_kms", "must be aws:KEY, such as aws:alias/octopus")
        from .adapters.keys.aws import AwsKms

        kms = AwsKms(name)
    return MasterFile(master_path(settings), kms)


def _vault_keys(settings: Settings) -> ScopeKeys:
    from .adapters.keys.vault import VaultKeys

    if not settings.vault_url:
        raise InvalidSetting("vault_url", "must be set for keys = vault: the address of Vault")
    return VaultKeys(
        settings.vault_url,
        _vault_token(settings),
        mount=settings.vault_mount,
        namespace=settings.vault_namespace,
        ca_file=settings.vault_ca_file,
        timeout_seconds=settings.vault_timeout_seconds,
        backup_days=settings.keys_backup_days,
    )


def _vault_token(settings: Settings) -> Callable[[], str]:
    if settings.vault_token_file:
        path = Path(settings.vault_token_file)

        def read() -> str:
            try:
                return path.read_text("ascii").strip()
            except (OSError, UnicodeDecodeError):
                raise KeyUnavailable(
                    f"the token of Vault {path} cannot be read: correct vault_token_file"
                ) from None

        return read
    if settings.vault_token is None:
        raise InvalidSetting("vault_token_file", "must be set for keys = vault, or vault_token")
    return settings.vault_token.get_secret_value
