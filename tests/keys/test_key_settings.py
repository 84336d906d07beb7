"""The settings of the key store, and what is refused while keys are on."""

from __future__ import annotations

import base64
import os
from contextlib import closing
from pathlib import Path

import pytest

from octopus_memory.adapters.keys.masters import new_master
from octopus_memory.domain.errors import InvalidSetting, KeyUnavailable
from octopus_memory.settings import load
from octopus_memory.wiring import build
from octopus_memory.wiring_keys import keys_path, make_ring, master_path
from tests.support.vault_server import running_vault

pytest.importorskip("cryptography")
REF = "11111111-2222"


def local(folder: Path, **given):
    options = {"database_url": f"sqlite:///{folder}/data/memory.db", "keys": "local"}
    return load(**options | {"keys_path": str(folder / "keys" / "keys.db")} | given)


def make_keys(settings):
    """The key store of a database that is sealed for the first time."""
    ring = make_ring(settings)
    if ring is None:
        return None
    ring.begin()
    return ring.keys


def test_without_keys_there_is_no_key_store():
    assert make_keys(load()) is None


def test_a_local_key_store_is_made_once_and_found_again(tmp_path: Path):
    settings = local(tmp_path)
    keys = make_keys(settings)
    assert keys is not None
    key = keys.create(REF)
    assert master_path(settings) == tmp_path / "keys" / "master.key"
    if os.name == "posix":
        assert master_path(settings).stat().st_mode & 0o777 == 0o600
    again = make_keys(settings)
    assert again is not None
    assert again.get([REF]) == {REF: key}


def test_a_lost_master_key_is_not_replaced(tmp_path: Path):
    settings = local(tmp_path)
    keys = make_keys(settings)
    assert keys is not None
    keys.create(REF)
    master_path(settings).unlink()
    again = make_keys(settings)
    assert again is not None
    with pytest.raises(KeyUnavailable, match=r"master\.key cannot be read"):
        again.get([REF])
    assert not master_path(settings).exists()


def test_a_lost_key_store_is_not_replaced(tmp_path: Path):
    settings = local(tmp_path, embedder="hashing", background=False)
    with closing(build(settings)):
        kept = keys_path(settings).parent
    for lost in (kept, keys_path(settings)):
        lost.rename(tmp_path / "elsewhere")
        with pytest.raises(KeyUnavailable, match="there is no key store at .*: restore it"):
            build(settings)
        assert not lost.exists()
        (tmp_path / "elsewhere").rename(lost)
    with closing(build(settings)):
        pass


def test_two_processes_make_one_master_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Whoever is later takes the one that is there, even if it looked before that was written."""
    settings = local(tmp_path)
    first = make_keys(settings)
    assert first is not None
    kept = master_path(settings).read_text()
    monkeypatch.setattr(Path, "exists", lambda _: False)
    second = make_keys(settings)
    assert second is not None
    monkeypatch.undo()
    assert master_path(settings).read_text() == kept
    assert second.get([REF]) == {}
    assert {each.suffix for each in (tmp_path / "keys").iterdir()} <= {".db", ".key", ".db-journal"}


def test_a_master_key_of_the_environment_needs_no_file(tmp_path: Path):
    text = base64.b64encode(new_master()).decode()
    settings = local(tmp_path, keys_master=text)
    keys = make_keys(settings)
    assert keys is not None
    keys.create(REF)
    assert [each.name for each in (tmp_path / "keys").iterdir() if each.suffix == ".key"] == []
    assert text not in repr(settings)


@pytest.mark.parametrize("field", ["keys_path", "keys_master_file"])
def test_keys_in_the_data_folder_are_refused(tmp_path: Path, field: str):
    with pytest.raises(InvalidSetting, match=f"{field}: must not be in"):
        make_keys(local(tmp_path, **{field: str(tmp_path / "data" / "inner" / "file")}))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"keys": "safe"}, "keys: must be off, local or vault"),
        ({"keys_kms": "gcp:one"}, "keys_kms: must be aws:KEY"),
        (
            {"keys_kms": "aws:one", "keys_master": "x"},
            "keys_kms: must be set with keys_master_file",
        ),
        ({"keys": "vault"}, "vault_url: must be set"),
        ({"keys": "vault", "vault_url": "https://vault"}, "vault_token_file: must be set"),
    ],
)
def test_invalid_settings_are_named(tmp_path: Path, given: dict[str, str], message: str):
    with pytest.raises(InvalidSetting, match=message):
        make_keys(local(tmp_path, **given))


def test_vault_is_asked_with_the_token_of_a_file_that_may_change(tmp_path: Path):
    pytest.importorskip("httpx")
    token = tmp_path / "token"
    token.write_text("hvs.test\n")
    with running_vault() as vault:
        options = {"vault_url": vault.url, "vault_token_file": str(token)}
        keys = make_keys(local(tmp_path, keys="vault", keys_cache_seconds=0, **options))
        assert keys is not None
        key = keys.create(REF)
        token.write_text("hvs.other")
        with pytest.raises(KeyUnavailable, match="refuses the token"):
            keys.get([REF])
        token.write_text("hvs.test")
        assert keys.get([REF]) == {REF: key}
        keys.close()


@pytest.mark.parametrize("index", ["pgvector", "qdrant"])
def test_an_index_that_holds_vectors_in_the_clear_is_refused(tmp_path: Path, index: str):
    with pytest.raises(
        InvalidSetting, match=f"index: must be exact while keys = local, because {index}"
    ):
        build(local(tmp_path, index=index))
