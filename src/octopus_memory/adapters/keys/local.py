"""A key store in an SQLite file of its own, whose keys are wrapped by a master key.

A row is never deleted, and its blob never changes its length. So SQLite overwrites a destroyed key
where it stands, moves no cell, and leaves no copy of it in a page.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from ...domain.errors import InvalidSetting, KeyDestroyed, KeyMissing, KeyUnavailable, MissingExtra
from ...ports.scope_keys import KEY_BYTES, Destroyed, Key, KeyStoreState, ScopeKeys
from .masters import Masters, new_master, sync_folder

_NAMES = ":names"
"""The ref of the installation's own key; a scope's has no colon."""
_ID = 4
_NONCE = 12
_BLOB = _ID + _NONCE + KEY_BYTES + 16
_GONE = bytes(_ID)
"""A blob that begins so is destroyed, and ends with the time."""
_BATCH = 500
_WAIT_SECONDS = 10
_SCHEMA = """
CREATE TABLE IF NOT EXISTS keys (
    id INTEGER PRIMARY KEY, ref BLOB NOT NULL UNIQUE, sealed BLOB NOT NULL
)"""
_BACKUP = "octopus-keys-%Y%m%dT%H%M%SZ.db"
_BACKUP_SOON = 2
"""Days after which another backup is due."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Rotated(NamedTuple):
    """What a rotation of the master key did."""

    keys: int
    """Keys that were wrapped anew."""
    old_removed: bool
    """False if the operator must remove the old master key from where the new one stands."""


class LocalKeys(ScopeKeys):
    """Keys in the file `path`. `data` is the database's folder, in which they must not be.

    `backups` is the folder that `check` looks for backups in.

    A connection is opened for each call, because calls are rare behind a cache: so a fork, a thread
    or a restored file needs no care.

    :raises InvalidSetting: when `path` is in the data folder
    :raises MissingExtra: without the extra `keys`
    """

    def __init__(
        self,
        path: Path,
        masters: Masters,
        *,
        backup_days: int = 30,
        backups: Path | None = None,
        data: Path | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers import aead
        except ImportError as error:
            raise MissingExtra("keys", "a local key store") from error
        self._aead = aead.AESGCM
        self._path = path
        self._data = data
        check_outside(path, data, "keys_path")
        self._source = masters
        self._backup_days = backup_days
        self._backups = backups
        self._now = now
        self._masters: dict[bytes, Key] = {}

    def init(self) -> None:
        """Make the file, unless it exists.

        :raises KeyUnavailable: when it cannot be written, or the master key cannot be read
        """
        self._load_masters()
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise KeyUnavailable(
                f"the key store {self._path} cannot be made ({error.strerror}): choose keys_path"
            ) from None
        with self._writing() as database:
            database.execute(_SCHEMA)
        sync_folder(self._path.parent)

    def name_key(self) -> Key:
        return self.create(_NAMES)

    def create(self, ref: str) -> Key:
        if found := self._read([ref]):
            return self._existing(ref, found[_digest(ref)])
        with self._writing() as database:
            # Under the lock, because a rotation ends under it: what it removed is not used again.
            newest = self._load_masters()
            sealed = self._seal(newest, _digest(ref), Key(secrets.token_bytes(KEY_BYTES)))
            row = (_digest(ref), sealed)
            database.execute("INSERT OR IGNORE INTO keys (ref, sealed) VALUES (?, ?)", row)
        return self._existing(ref, self._read([ref])[_digest(ref)])

    def get(self, refs: Sequence[str]) -> Mapping[str, bytes]:
        found = self._read(refs)
        blobs = {ref: found[_digest(ref)] for ref in refs if _digest(ref) in found}
        opened = {ref: self._open(_digest(ref), blob) for ref, blob in blobs.items()}
        return {ref: key for ref, key in opened.items() if key is not None}

    def destroy(self, refs: Sequence[str]) -> Destroyed:
        with self._writing(leave_nothing=True) as database:
            gone = _tombstone(self._now())
            for ref in refs:
                database.execute(
                    "INSERT INTO keys (ref, sealed) VALUES (?1, ?2) ON CONFLICT (ref) DO UPDATE "
                    "SET sealed = ?2 WHERE substr(sealed, 1, ?3) <> ?4",
                    (_digest(ref), gone, _ID, _GONE),
                )
        at = max(self.destroyed(refs).values(), default=self._now())
        days = self._backup_days
        return Destroyed(at, at + timedelta(days=days) if days else None)

    def destroyed(self, refs: Sequence[str]) -> Mapping[str, datetime]:
        found = self._read(refs)
        blobs = {ref: found.get(_digest(ref), b"") for ref in refs}
        return {ref: _time(blob) for ref, blob in blobs.items() if blob.startswith(_GONE)}

    def check(self) -> KeyStoreState:
        place, master = str(self._path), self._source.name
        try:
            # First, because a lost key store is not mended by its master key.
            with self._connected() as database:
                newest = self._load_masters()
                counts = "SELECT substr(sealed, 1, ?), count(*) FROM keys GROUP BY 1"
                wrapped = dict(database.execute(counts, (_ID,)).fetchall())
                names = "SELECT count(*) FROM keys WHERE ref = ?"
                own = database.execute(names, (_digest(_NAMES),)).fetchone()[0]
                sound = database.execute("PRAGMA quick_check").fetchone()[0] == "ok"
        except (InvalidSetting, KeyUnavailable) as error:
            return KeyStoreState(place, master, None, None, [str(error)], is_usable=False)
        problems = [*self._source.problems(), *self._unsafe(), *self._backup_problems()]
        if not sound:
            problems.append(f"{place} is damaged: restore it from its backup")
        gone = wrapped.pop(_GONE, 0)
        if unknown := sum(count for each, count in wrapped.items() if each not in self._masters):
            problems.append(
                f"{unknown} of the keys were wrapped by another master key than that of {master}: "
                "give the right one"
            )
        elif len(self._masters) > 1:
            old = sum(count for each, count in wrapped.items() if each != _master_id(newest))
            problems.append(
                f"a rotation is not finished ({old} keys to go): octopus scope-keys rotate-master"
            )
        keys = sum(wrapped.values()) - own
        return KeyStoreState(place, master, keys, gone, problems, is_usable=sound and not unknown)

    def rotate(self) -> Rotated:
        """Wrap every key by a new master key. A rotation that was cut short is finished.

        Older backups of the key store cannot be opened by the new master key.
        """
        masters = self._source.load()
        if len(masters) == 1:
            masters.insert(0, new_master())
            if not self._source.store(masters):
                raise InvalidSetting(
                    "keys_master",
                    f"a program cannot change {self._source.name}: put a new key before the old "
                    "one there, and rotate again",
                )
        newest = self._load_masters()
        count = last = 0
        while True:
            with self._writing(leave_nothing=True) as database:
                rows = database.execute(
                    "SELECT id, ref, sealed FROM keys WHERE id > ? "
                    "AND substr(sealed, 1, ?) NOT IN (?, ?) ORDER BY id LIMIT ?",
                    (last, _ID, _GONE, _master_id(newest), _BATCH),
                ).fetchall()
                if not rows and not last:
                    # Under the lock, because a writer reads the master keys under it.
                    return Rotated(count, self._source.store([newest]))
                for each, digest, blob in rows:
                    key = self._open(digest, blob)
                    if key is None:
                        raise KeyMissing(
                            f"a key in {self._path} is damaged: restore the key store from its "
                            "backup first"
                        )
                    fresh = self._seal(newest, digest, key)
                    database.execute("UPDATE keys SET sealed = ? WHERE id = ?", (fresh, each))
            count += len(rows)
            # The last pass starts again, for what was added with the old key meanwhile.
            last = rows[-1][0] if rows else 0

    def backup(self, folder: Path) -> tuple[Path, list[Path]]:
        """Copy the file into a folder, and remove the copies there that have expired.

        :return: the copy, and what was removed
        """
        if not self._backup_days:
            raise InvalidSetting("keys_backup_days", "must be above 0 to keep backups of keys")
        check_outside(folder, self._data, "folder")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        now = self._now()
        copy = folder / now.strftime(_BACKUP)
        with self._connected() as database:
            os.close(os.open(copy, os.O_WRONLY | os.O_CREAT, 0o600))
            with closing(sqlite3.connect(copy)) as target:
                database.backup(target)
        sync_folder(folder)
        expired = self._expired(_backups_in(folder))
        for each in expired:
            each.unlink()
        return copy, expired

    def close(self) -> None:
        self._masters = {}

    def _existing(self, ref: str, blob: bytes) -> Key:
        if blob.startswith(_GONE):
            raise KeyDestroyed(f"the key of scope {ref} was destroyed: a new scope has a new one")
        key = self._open(_digest(ref), blob)
        if key is None:
            raise KeyMissing(f"the key of scope {ref} is damaged: restore {self._path}")
        return key

    def _read(self, refs: Sequence[str]) -> dict[bytes, bytes]:
        digests = [_digest(ref) for ref in refs]
        found: dict[bytes, bytes] = {}
        with self._connected() as database:
            for start in range(0, len(digests), _BATCH):
                some = digests[start : start + _BATCH]
                marks = ", ".join("?" * len(some))
                statement = f"SELECT ref, sealed FROM keys WHERE ref IN ({marks})"  # noqa: S608
                found.update(database.execute(statement, some).fetchall())
        return found

    def _load_masters(self) -> Key:
        """Read the master keys again; return the one that wraps."""
        masters = self._source.load()
        self._masters = {_master_id(each): each for each in masters}
        return masters[0]

    def _seal(self, master: Key, digest: bytes, key: Key) -> bytes:
        nonce = secrets.token_bytes(_NONCE)
        return _master_id(master) + nonce + self._aead(master).encrypt(nonce, key, digest)

    def _open(self, digest: bytes, blob: bytes) -> Key | None:
        """Return None for a destroyed or damaged key."""
        from cryptography.exceptions import InvalidTag

        if blob.startswith(_GONE) or len(blob) != _BLOB:
            return None
        if blob[:_ID] not in self._masters:
            # It was rotated meanwhile, or this is the first call.
            self._load_masters()
        master = self._masters.get(blob[:_ID])
        if master is None:
            raise KeyUnavailable(
                f"the keys in {self._path} were wrapped by another master key than that of "
                f"{self._source.name}: give the right one"
            )
        nonce = blob[_ID : _ID + _NONCE]
        try:
            return Key(self._aead(master).decrypt(nonce, blob[_ID + _NONCE :], digest))
        except InvalidTag:
            return None

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        address = f"{self._path.absolute().as_uri()}?mode=rw"
        try:
            with closing(
                sqlite3.connect(address, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)
            ) as database:
                yield database
        except sqlite3.Error as error:
            raise KeyUnavailable(self._failure(error)) from None

    @contextmanager
    def _writing(self, *, leave_nothing: bool = False) -> Iterator[sqlite3.Connection]:
        with self._connected() as database:
            database.execute("PRAGMA secure_delete = ON")
            database.execute("PRAGMA synchronous = FULL")
            # The journal has pages as they were; to keep it saves syncs, where nothing must go.
            database.execute(f"PRAGMA journal_mode = {'TRUNCATE' if leave_nothing else 'PERSIST'}")
            database.execute("BEGIN IMMEDIATE")
            yield database
            database.execute("COMMIT")

    def _failure(self, error: sqlite3.Error) -> str:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            return f"the key store {self._path} is locked by another process: try again"
        if code == sqlite3.SQLITE_FULL:
            return f"the disk of the key store {self._path} is full: make room"
        if code == sqlite3.SQLITE_READONLY:
            return f"the key store {self._path} cannot be written: check its rights"
        if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
            return f"the key store {self._path} is damaged: restore it from its backup"
        return (
            f"there is no key store at {self._path}: restore it, or correct keys_path; octopus "
            "scope-keys init makes a first one"
        )

    def _unsafe(self) -> list[str]:
        if os.name != "posix":
            return []
        found = []
        if self._path.stat().st_mode & stat.S_IRWXO:
            found.append(f"every user can read {self._path}: chmod 600 {self._path}")
        if self._path.parent.stat().st_mode & stat.S_IWOTH:
            found.append(f"every user can write to {self._path.parent}: chmod o-w it")
        return found

    def _expired(self, made: Mapping[Path, datetime]) -> list[Path]:
        oldest = self._now() - timedelta(days=self._backup_days)
        return [path for path, at in made.items() if at < oldest]

    def _backup_problems(self) -> list[str]:
        if self._backups is None or not self._backup_days:
            return []
        made = _backups_in(self._backups)
        command = "octopus scope-keys backup"
        if not made:
            return [f"there is no backup of the keys in {self._backups}: {command}"]
        found = []
        if (days := (self._now() - max(made.values())).days) >= _BACKUP_SOON:
            found.append(
                f"the newest backup of the keys is {days} days old, and lacks what was made since: "
                f"{command}, each day"
            )
        if self._expired(made):
            found.append(
                f"the oldest backup of the keys is {(self._now() - min(made.values())).days} days "
                f"old, and may hold keys that receipts call gone: {command} removes what is older "
                f"than {self._backup_days} days"
            )
        return found


def _backups_in(folder: Path) -> dict[Path, datetime]:
    """Return when each backup in the folder was made; the name tells."""
    found = {}
    for path in folder.glob("octopus-keys-*.db"):
        with suppress(ValueError):
            found[path] = datetime.strptime(path.name, _BACKUP).replace(tzinfo=UTC)
    return found


def check_outside(path: Path, data: Path | None, field: str) -> None:
    """:raises InvalidSetting: when `path` is in the data folder, whose backup would then hold it"""
    if data is not None and data.resolve() in [path.resolve(), *path.resolve().parents]:
        raise InvalidSetting(
            field, f"must not be in {data}, because every backup of the data would hold the keys"
        )


def _digest(ref: str) -> bytes:
    return sha256(ref.encode()).digest()


def _master_id(master: Key) -> bytes:
    """Return a name that tells nothing of the master key, and is never that of a tombstone."""
    name = sha256(b"octopus master key" + master).digest()[:_ID]
    return bytes([name[0] | 1]) + name[1:]


def _tombstone(at: datetime) -> bytes:
    microseconds = (at - _EPOCH) // timedelta(microseconds=1)
    return microseconds.to_bytes(_BLOB, "big")


def _time(blob: bytes) -> datetime:
    return _EPOCH + timedelta(microseconds=int.from_bytes(blob, "big"))
