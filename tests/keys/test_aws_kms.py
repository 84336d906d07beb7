"""A master key that AWS KMS wraps, against botocore's own checks of each request."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest

boto3 = pytest.importorskip("boto3")
from botocore.exceptions import ConnectTimeoutError  # noqa: E402
from botocore.stub import Stubber  # noqa: E402

from octopus_memory.adapters.keys.aws import AwsKms  # noqa: E402
from octopus_memory.adapters.keys.local import LocalKeys  # noqa: E402
from octopus_memory.adapters.keys.masters import MasterFile, new_master  # noqa: E402
from octopus_memory.domain.errors import InvalidSetting, KeyUnavailable  # noqa: E402
from octopus_memory.ports.scope_keys import MasterKey, ScopeKeys  # noqa: E402
from octopus_memory.testing import ScopeKeysSuite  # noqa: E402
from octopus_memory.testing.scope_keys import new_ref  # noqa: E402

ARN = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
CONTEXT = {"purpose": "octopus-memory master key"}


@pytest.fixture
def client():
    return boto3.client(
        "kms", region_name="eu-central-1", aws_access_key_id="x", aws_secret_access_key="x"
    )


class ReversingKms(MasterKey):
    """Wraps by a change that only it undoes, and counts."""

    name = "a KMS"

    def __init__(self) -> None:
        self.unwrapped = 0

    def wrap(self, master: bytes) -> bytes:
        return b"wrapped" + bytes(byte ^ 0x5A for byte in master)

    def unwrap(self, wrapped: bytes) -> bytes:
        self.unwrapped += 1
        return bytes(byte ^ 0x5A for byte in wrapped.removeprefix(b"wrapped"))


class TestKeysUnderAKms(ScopeKeysSuite):
    @pytest.fixture
    def connect(self, tmp_path: Path) -> Callable[[], ScopeKeys]:
        def connect() -> ScopeKeys:
            masters = MasterFile(tmp_path / "master.key", ReversingKms())
            masters.create()
            keys = LocalKeys(tmp_path / "keys.db", masters)
            keys.init()
            return keys

        return connect


def test_requests_have_the_shape_of_kms(client):
    master = new_master()
    with Stubber(client) as kms:
        kms.add_response(
            "encrypt",
            {"CiphertextBlob": b"sealed", "KeyId": ARN},
            {"KeyId": ARN, "EncryptionContext": CONTEXT, "Plaintext": bytes(master)},
        )
        kms.add_response(
            "decrypt",
            {"Plaintext": bytes(master), "KeyId": ARN},
            {"KeyId": ARN, "EncryptionContext": CONTEXT, "CiphertextBlob": b"sealed"},
        )
        key = AwsKms(ARN, client=client)
        assert key.unwrap(key.wrap(master)) == master
        kms.assert_no_pending_responses()


def test_the_file_holds_what_kms_wrapped_and_each_is_unwrapped_once(tmp_path: Path):
    kms = ReversingKms()
    masters = MasterFile(tmp_path / "master.key", kms)
    masters.create()
    text = (tmp_path / "master.key").read_text()
    assert text.startswith("kms:")
    again = MasterFile(tmp_path / "master.key", kms)
    assert base64.b64encode(again.load()[0]).decode() not in text
    assert again.load() == masters.load()
    assert kms.unwrapped == 1


def test_without_the_kms_a_wrapped_file_is_refused_and_with_it_a_plain_one_is_moved(tmp_path: Path):
    plain = MasterFile(tmp_path / "master.key")
    plain.create()
    keys = LocalKeys(tmp_path / "keys.db", plain)
    keys.init()
    ref = new_ref()
    made = keys.create(ref)
    wrapped = LocalKeys(tmp_path / "keys.db", MasterFile(tmp_path / "master.key", ReversingKms()))
    assert (
        "is not wrapped by the KMS: octopus scope-keys rotate-master" in wrapped.check().problems[0]
    )
    assert wrapped.rotate() == (1, True)
    assert wrapped.get([ref]) == {ref: made}
    assert list(wrapped.check().problems) == []
    with pytest.raises(InvalidSetting, match="keys_kms"):
        LocalKeys(tmp_path / "keys.db", MasterFile(tmp_path / "master.key")).get([ref])


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        ("AccessDeniedException", "allow kms:Encrypt"),
        ("DisabledException", "enable the key"),
        ("IncorrectKeyException", "correct keys_kms"),
        ("NotFoundException", "no such key in this region"),
        ("KMSInternalException", "see the AWS console"),
    ],
)
def test_what_kms_refuses_is_told_with_its_remedy(client, code: str, remedy: str):
    with Stubber(client) as kms:
        kms.add_client_error("decrypt", code)
        with pytest.raises(KeyUnavailable, match=f"{code}: .*{remedy}"):
            AwsKms("alias/octopus", client=client).unwrap(b"sealed")


def test_a_kms_that_does_not_answer_is_told(client, monkeypatch):
    def fail(**given):
        raise ConnectTimeoutError(endpoint_url="https://kms.eu-central-1.amazonaws.com")

    monkeypatch.setattr(client, "decrypt", fail)
    with pytest.raises(KeyUnavailable, match="does not answer .ConnectTimeoutError.: check the"):
        AwsKms(ARN, client=client).unwrap(b"sealed")
    with pytest.raises(InvalidSetting, match="aws:alias/octopus"):
        AwsKms("", client=client)
