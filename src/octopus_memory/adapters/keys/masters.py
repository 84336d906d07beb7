"""Where the local key store's master keys come from: a file, or a text of the environment.

The first master key wraps; the others only open what was wrapped before a rotation.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from ...domain.errors import InvalidSetting, KeyUnavailable
from ...ports.scope_keys import KEY_BYTES, Key, MasterKey

_WRAPPED = "kms:"


class Masters(Protocol):
    """A source of master keys."""

    name: str

    def load(self) -> list[Key]:
        """The master keys, the newest first.

        :raises KeyUnavailable: when they cannot be read safely
        """

    def store(self, masters: Sequence[Key]) -> bool:
        """Replace them, whole or not at all; False if only the operator can."""

    def problems(self) -> list[str]:
        """What is unsafe, each with its remedy."""


class MasterText:
    """Master keys in a text, separated by commas or line ends, the newest first."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.name = "the environment"

    def load(self) -> list[Key]:
        return [_plain(line, "keys_master") for line in _lines(self._text, "keys_master")]

    def store(self, masters: Sequence[Key]) -> bool:  # noqa: ARG002
        return False

    def problems(self) -> list[str]:
        return []


class MasterFile:
    """Master keys in a file, which a KMS may wrap. Each is unwrapped once."""

    def __init__(self, path: Path, kms: MasterKey | None = None) -> None:
        self._path = path
        self._kms = kms
        self._unwrapped: dict[str, Key] = {}
        self.name = str(path) if kms is None else f"{path}, wrapped by {kms.name}"

    def load(self) -> list[Key]:
        try:
            text = self._path.read_text("ascii")
            mode = self._path.stat().st_mode
        except (OSError, UnicodeDecodeError) as error:
            raise KeyUnavailable(
                f"the master key {self._path} cannot be read ({_why(error)}): restore the file, or "
                "correct keys_master_file"
            ) from None
        if os.name == "posix" and mode & stat.S_IRWXO:
            raise KeyUnavailable(
                f"the master key {self._path} is open to every user of this machine: "
                f"chmod 600 {self._path}, then octopus scope-keys rotate-master, because someone "
                "may have read it"
            )
        return [self._key(line) for line in _lines(text, "keys_master_file")]

    def create(self) -> None:
        """Write a new master key, unless the file exists.

        :raises KeyUnavailable: when the folder cannot be written
        """
        if self._path.exists():
            return
        fresh = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(fresh, self._line(new_master()) + "\n", 0o600)
            with suppress(FileExistsError):
                # Unlike a rename, this never replaces the one of another process.
                self._path.hardlink_to(fresh)
        except OSError as error:
            raise KeyUnavailable(
                f"{self._path} cannot be written ({_why(error)}): choose keys_master_file"
            ) from None
        finally:
            fresh.unlink(missing_ok=True)
        sync_folder(self._path.parent)

    def store(self, masters: Sequence[Key]) -> bool:
        text = "".join(self._line(master) + "\n" for master in masters)
        fresh = self._path.with_name(self._path.name + ".new")
        mode = self._path.stat().st_mode & 0o770 if self._path.exists() else 0o600
        try:
            fresh.unlink(missing_ok=True)
            _write(fresh, text, mode)
        except OSError:
            return False
        fresh.replace(self._path)
        sync_folder(self._path.parent)
        return True

    def problems(self) -> list[str]:
        found = []
        if os.name == "posix" and self._path.stat().st_mode & stat.S_IRWXG:
            found.append(f"a group can read {self._path}: chmod 600 if only one user needs it")
        if self._kms is not None and _WRAPPED not in self._path.read_text("ascii").split("\n")[0]:
            found.append(
                f"{self._path} is not wrapped by the KMS: octopus scope-keys rotate-master"
            )
        return found

    def _key(self, line: str) -> Key:
        if not line.startswith(_WRAPPED):
            return _plain(line, "keys_master_file")
        if self._kms is None:
            raise InvalidSetting("keys_kms", "must name the KMS that wrapped the master key")
        if line not in self._unwrapped:
            wrapped = _decoded(line.removeprefix(_WRAPPED), "keys_master_file")
            self._unwrapped[line] = Key(self._kms.unwrap(wrapped))
        return self._unwrapped[line]

    def _line(self, master: Key) -> str:
        if self._kms is None:
            return base64.b64encode(master).decode()
        known = {key: line for line, key in self._unwrapped.items()}
        if master not in known:
            known[master] = _WRAPPED + base64.b64encode(self._kms.wrap(master)).decode()
            self._unwrapped[known[master]] = master
        return known[master]


def _write(path: Path, text: str, mode: int) -> None:
    """Write a new file, durably."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(file, "w", encoding="ascii") as writer:
        writer.write(text)
        writer.flush()
        os.fsync(writer.fileno())


def new_master() -> Key:
    return Key(secrets.token_bytes(KEY_BYTES))


def sync_folder(folder: Path) -> None:
    """Make a rename durable; only POSIX can."""
    if os.name == "posix":
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _lines(text: str, field: str) -> list[str]:
    lines = text.replace(",", "\n").split()
    if not lines:
        raise InvalidSetting(field, "must hold a master key: octopus scope-keys init makes one")
    return lines


def _plain(line: str, field: str) -> Key:
    key = _decoded(line, field)
    if len(key) != KEY_BYTES:
        raise _invalid(field)
    return Key(key)


def _decoded(text: str, field: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise _invalid(field) from None


def _invalid(field: str) -> InvalidSetting:
    # The error never repeats the value.
    return InvalidSetting(field, f"must hold keys of {KEY_BYTES} random bytes in base64")


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or "it is not text"
