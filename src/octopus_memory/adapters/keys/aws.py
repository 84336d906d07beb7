"""A key of AWS KMS that wraps the local key store's master key."""

from __future__ import annotations

from typing import Any

from ...domain.errors import InvalidSetting, KeyUnavailable, MissingExtra
from ...ports.scope_keys import Key, MasterKey

_CONTEXT = {"purpose": "octopus-memory master key"}
"""What KMS checks at unwrapping and writes to CloudTrail."""


class AwsKms(MasterKey):
    """A symmetric key of AWS KMS: its id, ARN or `alias/…`.

    Credentials and region are found as by every AWS program. `client` is boto3's, for tests.

    :raises MissingExtra: without the extra `aws`
    """

    def __init__(self, key_id: str, *, client: Any = None, timeout_seconds: float = 5) -> None:
        try:
            import boto3
            from botocore.config import Config
            from botocore.exceptions import BotoCoreError
        except ImportError as error:
            raise MissingExtra("aws", "keys_kms = aws:…") from error
        if not key_id:
            raise InvalidSetting("keys_kms", "must name a key, such as aws:alias/octopus")
        self._key_id = key_id
        self.name = f"AWS KMS {key_id}"
        options = Config(
            connect_timeout=timeout_seconds,
            read_timeout=timeout_seconds,
            retries={"mode": "standard", "total_max_attempts": 3},
        )
        # The region is in an ARN: arn:aws:kms:REGION:ACCOUNT:key/…
        region = key_id.split(":")[3] if key_id.startswith("arn:") else None
        try:
            self._client = client or boto3.client("kms", config=options, region_name=region)
        except BotoCoreError as error:
            raise InvalidSetting("keys_kms", f"cannot be used: {error}") from None

    def wrap(self, master: bytes) -> bytes:
        answer = self._ask("encrypt", Plaintext=bytes(master))
        return bytes(answer["CiphertextBlob"])

    def unwrap(self, wrapped: bytes) -> bytes:
        return Key(self._ask("decrypt", CiphertextBlob=wrapped)["Plaintext"])

    def _ask(self, call: str, **given: bytes) -> dict[str, Any]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer: dict[str, Any] = getattr(self._client, call)(
                KeyId=self._key_id, EncryptionContext=_CONTEXT, **given
            )
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "an error")
            remedy = _REMEDIES.get(code, "see the AWS console")
            raise KeyUnavailable(f"{self.name} answered {code}: {remedy}") from None
        except BotoCoreError as error:
            raise KeyUnavailable(
                f"{self.name} does not answer ({type(error).__name__}): check the network, the "
                "region and the credentials of AWS"
            ) from None
        return answer


_REMEDIES = {
    "AccessDeniedException": "allow kms:Encrypt and kms:Decrypt on the key",
    "DisabledException": "enable the key",
    "IncorrectKeyException": "the master key was wrapped by another key: correct keys_kms",
    "InvalidCiphertextException": "the master key was wrapped by another key: correct keys_kms",
    "KMSInvalidStateException": "the key is pending deletion or import: cancel that",
    "NotFoundException": "there is no such key in this region: correct keys_kms",
    "ThrottlingException": "try again",
}
