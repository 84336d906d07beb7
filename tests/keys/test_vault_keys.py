"""The key store in Vault: its suite, and what happens when Vault fails in the middle."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from octopus_memory.adapters.keys.vault import VaultKeys
from octopus_memory.domain.errors import InvalidSetting, KeyDestroyed, KeyUnavailable
from octopus_memory.ports.scope_keys import ScopeKeys
from octopus_memory.testing import ScopeKeysSuite
from octopus_memory.testing.scope_keys import new_ref
from tests.support.vault_server import Vault, running_vault

pytest.importorskip("httpx")


@pytest.fixture
def vault() -> Iterator[Vault]:
    with running_vault() as vault:
        yield vault


@pytest.fixture
def connect(vault: Vault) -> Iterator[Callable[..., VaultKeys]]:
    made: list[VaultKeys] = []

    def connect(**options) -> VaultKeys:
        made.append(VaultKeys(vault.url, lambda: "hvs.test", **options))
        return made[-1]

    yield connect
    for each in made:
        each.close()


class TestVaultKeys(ScopeKeysSuite):
    @pytest.fixture
    def connect(self, connect) -> Callable[[], ScopeKeys]:
        return connect


def test_a_destroyed_key_is_deleted_in_vault_and_its_ring_is_the_tombstone(connect, vault: Vault):
    keys = connect()
    ref = new_ref()
    keys.create(ref)
    secret = vault.keys[f"octopus-{ref}"].versions[1][1]
    keys.destroy([ref])
    ring = vault.keys[f"octopus-{ref}"]
    assert list(ring.versions) == [2]
    assert secret not in [each for _, each in ring.versions.values()]


def test_a_key_that_an_operator_rotated_stays_the_same(connect, vault: Vault):
    keys = connect()
    ref = new_ref()
    key, names = keys.create(ref), keys.name_key()
    for ring in vault.keys.values():
        ring.rotate()
    assert keys.get([ref]) == {ref: key}
    assert connect().name_key() == names
    assert ref not in keys.destroyed([ref])
    keys.destroy([ref])
    assert keys.get([ref]) == {}
    assert list(vault.keys[f"octopus-{ref}"].versions) == [3]


@pytest.mark.parametrize("fault", ["drop before", "drop after", "500"])
def test_a_destruction_that_ended_at_any_request_is_finished_by_the_next(
    connect, vault: Vault, fault: str
):
    """The client is gone after the request, so that the repeated call is another process's."""
    for step in range(20):
        ref = new_ref()
        key = connect().create(ref)
        vault.faults.extend([None] * step + [fault, fault])
        try:
            connect().destroy([ref])
        except KeyUnavailable:
            vault.faults.clear()
            assert connect().get([ref]) in ({}, {ref: key})
        else:
            vault.faults.clear()
            break
        connect().destroy([ref])
        assert connect().get([ref]) == {}
        assert 1 not in vault.keys[f"octopus-{ref}"].versions
        with pytest.raises(KeyDestroyed):
            connect().create(ref)
    assert 4 <= step < 10


@pytest.mark.parametrize("fault", ["drop before", "drop after", "500"])
def test_one_failure_on_the_way_is_tried_again(connect, vault: Vault, fault: str):
    keys = connect()
    ref = new_ref()
    vault.faults.append(fault)
    key = keys.create(ref)
    vault.faults.append(fault)
    assert keys.get([ref]) == {ref: key}
    vault.faults.append(fault)
    keys.destroy([ref])
    assert keys.get([ref]) == {}


@pytest.mark.slow
def test_a_vault_that_is_too_slow_is_not_waited_for(connect, vault: Vault):
    keys = connect(timeout_seconds=0.2)
    vault.faults.extend(["late", "late"])
    with pytest.raises(KeyUnavailable, match="does not answer at http.*ReadTimeout.*check"):
        keys.get([new_ref()])


def test_a_sealed_vault_is_told_and_works_again(connect, vault: Vault):
    keys = connect()
    ref = new_ref()
    key = keys.create(ref)
    vault.is_sealed = True
    for call in (keys.name_key, lambda: keys.get([ref]), lambda: keys.destroy([ref])):
        with pytest.raises(KeyUnavailable, match="is sealed or not ready: unseal it .Vault is"):
            call()
    assert "sealed" in keys.check().problems[0]
    assert not keys.check().is_usable
    vault.is_sealed = False
    assert keys.get([ref]) == {ref: key}


def test_a_token_that_was_revoked_is_told_and_a_new_one_is_used(vault: Vault):
    token = ["hvs.test"]
    keys = VaultKeys(vault.url, lambda: token[0])
    ref = new_ref()
    key = keys.create(ref)
    vault.token = "hvs.next"
    with pytest.raises(KeyUnavailable, match="refuses the token.*permission denied") as raised:
        keys.get([ref])
    assert "hvs." not in str(raised.value)
    token[0] = "hvs.next"
    assert keys.get([ref]) == {ref: key}
    keys.close()


def test_a_wrong_mount_or_address_is_never_taken_for_lost_keys(connect, vault: Vault):
    keys = connect(mount="elsewhere")
    for call in (lambda: keys.get([new_ref()]), lambda: keys.create(new_ref())):
        with pytest.raises(KeyUnavailable, match="no transit engine at elsewhere"):
            call()
    with pytest.raises(KeyUnavailable, match="no transit engine"):
        keys.destroyed([new_ref()])
    gone = VaultKeys("http://127.0.0.1:9", lambda: "x")
    with pytest.raises(KeyUnavailable, match="does not answer at http://127.0.0.1:9"):
        gone.get([new_ref()])
    gone.close()
    with pytest.raises(InvalidSetting, match="vault_url"):
        VaultKeys("vault:8200", lambda: "x")


def test_a_redirect_is_not_followed_with_the_token(connect, vault: Vault):
    vault.faults.append("307")
    with pytest.raises(KeyUnavailable, match="redirects from .*: set vault_url"):
        connect().get([new_ref()])
    assert len(vault.asked) == 1


def test_check_names_what_the_policy_lacks_and_when_the_token_ends(connect, vault: Vault):
    vault.capabilities = ["read"]
    vault.ttl = 3_600
    problems = connect().check().problems
    assert any("must allow update on transit/keys/octopus-any/trim" in each for each in problems)
    assert any("ends in 60 minutes" in each for each in problems)
    vault.capabilities = ["root"]
    vault.ttl = 0
    assert list(connect().check().problems) == []
    remote = VaultKeys("http://vault.invalid:8200", lambda: "x", timeout_seconds=0.5)
    assert "is not encrypted" in remote.check().problems[-1]
    remote.close()


def test_no_request_holds_a_name_and_no_error_a_key(connect, vault: Vault):
    keys = connect()
    ref = new_ref()
    key = keys.create(ref)
    keys.destroy([ref])
    assert key.hex() not in json.dumps(vault.asked)
    assert all(ref in each or "capabilities" in each for each in vault.asked)


def test_many_keys_are_asked_for_at_once(connect):
    keys = connect()
    refs = [new_ref() for _ in range(20)]
    made = {ref: keys.create(ref) for ref in refs}
    assert keys.get(refs) == made
    assert set(keys.destroyed(refs[:1])) == set()
    keys.destroy(refs[:12])
    assert set(keys.get(refs)) == set(refs[12:])
