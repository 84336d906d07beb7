"""Keys from the transit engine of HashiCorp Vault or OpenBao: one transit key for each scope.

A scope's key is the HMAC of a fixed text under version 1 of its transit key, so that nothing has to
be stored for it anywhere. To destroy it, the transit key is rotated and version 1 is trimmed, which
deletes it for good. What is left is the tombstone: unlike a deleted transit key, no other process
can create it again, and it tells the time.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ...domain.errors import InvalidSetting, KeyDestroyed, KeyUnavailable, MissingExtra
from ...ports.scope_keys import KEY_BYTES, Destroyed, Key, KeyStoreState, ScopeKeys

if TYPE_CHECKING:
    import httpx

_PREFIX = "octopus-"
_NAMES = "octopus.names"
"""The installation's own key; a scope's has no dot."""
_INPUT = base64.b64encode(b"octopus-memory scope key 1").decode()
_AT_ONCE = 8
_TRIES = 2
_SOON = 24 * 3600
_NEEDED = {
    "keys/octopus-any": {"read", "update"},
    "keys/octopus-any/config": {"update"},
    "keys/octopus-any/rotate": {"update"},
    "keys/octopus-any/trim": {"update"},
    "hmac/octopus-any": {"update"},
}
"""What the token's policy must allow, by path below the mount."""


class VaultKeys(ScopeKeys):
    """Keys of the transit engine at `mount`. `token` is called before each request: it may change.

    A request that fails on its way is sent once more, because each can be repeated.

    :raises MissingExtra: without the extra `vault`
    """

    def __init__(
        self,
        url: str,
        token: Callable[[], str],
        *,
        mount: str = "transit",
        namespace: str | None = None,
        ca_file: str | None = None,
        timeout_seconds: float = 5,
        backup_days: int = 30,
    ) -> None:
        try:
            import httpx
        except ImportError as error:
            raise MissingExtra("vault", "the key store vault") from error
        if urlsplit(url).scheme not in {"http", "https"}:
            raise InvalidSetting("vault_url", "must be the address of Vault, with https://")
        self._url = url.rstrip("/")
        self._mount = mount.strip("/")
        self._token = token
        self._backup_days = backup_days
        headers = {"X-Vault-Request": "true"}
        if namespace:
            headers["X-Vault-Namespace"] = namespace
        verify: Any = True
        if ca_file:
            import ssl

            try:
                verify = ssl.create_default_context(cafile=ca_file)
            except OSError as error:
                raise InvalidSetting("vault_ca_file", "must be a file of certificates") from error
        # Redirects are not followed, because they would carry the token to another host.
        self._client = httpx.Client(headers=headers, timeout=timeout_seconds, verify=verify)

    def name_key(self) -> Key:
        return self._create(_NAMES)

    def create(self, ref: str) -> Key:
        return self._create(_PREFIX + ref)

    def get(self, refs: Sequence[str]) -> Mapping[str, bytes]:
        found = self._each(self._hmac, refs)
        return {ref: key for ref, key in found.items() if key is not None}

    def destroy(self, refs: Sequence[str]) -> Destroyed:
        at = max(self._each(self._destroy, refs).values(), default=datetime.now(UTC))
        days = self._backup_days
        return Destroyed(at, at + timedelta(days=days) if days else None)

    def destroyed(self, refs: Sequence[str]) -> Mapping[str, datetime]:
        found = self._each(lambda name: _gone_at(self._read(name)), refs)
        return {ref: at for ref, at in found.items() if at is not None}

    def check(self) -> KeyStoreState:
        place, problems, count = f"{self._url}/v1/{self._mount}", [], None
        is_usable = False
        try:
            problems += self._token_problems()
            self.name_key()
            listed = self._ask("LIST", "keys", missing=True, refused=True)
            if listed is not None:
                count = sum(each.startswith(_PREFIX) for each in listed["data"]["keys"])
            is_usable = True
        except KeyUnavailable as error:
            problems.append(str(error))
        host = urlsplit(self._url).hostname
        if self._url.startswith("http:") and host not in {"localhost", "127.0.0.1", "::1"}:
            problems.append(f"{self._url} is not encrypted: set vault_url to an https address")
        return KeyStoreState(place, "Vault", count, None, problems, is_usable)

    def close(self) -> None:
        self._client.close()

    def _each(self, do: Callable[[str], Any], refs: Sequence[str]) -> dict[str, Any]:
        names = [_PREFIX + ref for ref in refs]
        if len(names) == 1:
            return {refs[0]: do(names[0])}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return dict(zip(refs, pool.map(do, names), strict=True))

    def _create(self, name: str) -> Key:
        key = self._hmac(name)
        if key is None:
            # Changes nothing where it exists, even as a tombstone.
            self._ask("POST", f"keys/{name}", {"type": "aes256-gcm96"})
            key = self._hmac(name)
        if key is None:
            raise KeyDestroyed(f"the key {name} was destroyed: a new scope has a new one")
        return key

    def _hmac(self, name: str) -> Key | None:
        """Return None if there is no such key, or no version 1 of it."""
        body = {"input": _INPUT, "key_version": 1}
        for _ in range(_TRIES):
            answer = self._ask("POST", f"hmac/{name}/sha2-256", body, invalid=True)
            if answer is not None:
                break
            state = self._read(name)
            if state is None or _is_out_of_use(state):
                return None
            # Another process may have created it between the two requests.
        else:
            raise KeyUnavailable(f"Vault refuses to use the key {name}: see Vault's log")
        version, key = answer["data"]["hmac"].rsplit(":", 1)
        made = Key(base64.b64decode(key))
        if version != "vault:v1" or len(made) != KEY_BYTES:
            raise KeyUnavailable("Vault answered with another version of a key: upgrade Vault")
        return made

    def _read(self, name: str) -> dict[str, Any] | None:
        answer = self._ask("GET", f"keys/{name}", missing=True)
        return None if answer is None else dict(answer["data"])

    def _destroy(self, name: str) -> datetime:
        state = self._read(name)
        if state is None:
            self._ask("POST", f"keys/{name}", {"type": "aes256-gcm96"})
        at = None if state is None else _gone_at(state)
        if at is not None:
            return at
        try:
            self._trim(name)
        except KeyUnavailable:
            # Another process may have been faster.
            at = _gone_at(self._read(name))
            if at is None:
                raise
            return at
        at = _gone_at(self._known(name))
        if at is None:
            raise KeyUnavailable(f"Vault did not trim the key {name}: see Vault's log")
        return at

    def _trim(self, name: str) -> None:
        self._ask("POST", f"keys/{name}/rotate", {})
        latest = self._known(name)["latest_version"]
        oldest = {"min_decryption_version": latest, "min_encryption_version": latest}
        self._ask("POST", f"keys/{name}/config", oldest)
        self._ask("POST", f"keys/{name}/trim", {"min_available_version": latest})

    def _known(self, name: str) -> dict[str, Any]:
        state = self._read(name)
        if state is None:
            raise KeyUnavailable(f"Vault lost the key {name} meanwhile: try again")
        return state

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        missing: bool = False,
        invalid: bool = False,
        refused: bool = False,
        mount: str | None = None,
    ) -> dict[str, Any] | None:
        """Return the answer; None for a 404, a 400 or a 403 that is expected.

        :raises KeyUnavailable: for everything else
        """
        import httpx

        url = f"{self._url}/v1/{self._mount if mount is None else mount}/{path}"
        for left in reversed(range(_TRIES)):
            token = {"X-Vault-Token": self._token()}
            try:
                answer = self._client.request(method, url, json=body, headers=token)
            except httpx.HTTPError as error:
                if left:
                    continue
                raise KeyUnavailable(
                    f"Vault does not answer at {self._url} ({type(error).__name__}): check "
                    "vault_url and that Vault runs"
                ) from None
            if answer.status_code < 500 or not left:
                break
        told = _errors(answer)
        expected = {404: missing and not told, 400: invalid, 403: refused}
        if expected.get(answer.status_code):
            return None
        if not answer.is_success:
            raise KeyUnavailable(f"Vault {self._problem(answer.status_code)}{told}")
        if answer.status_code == 204:
            return {}
        try:
            return dict(answer.json())
        except ValueError:
            raise KeyUnavailable(
                f"what answers at {self._url} is not Vault: check vault_url"
            ) from None

    def _problem(self, status: int) -> str:
        if status == 403:
            return "refuses the token: check vault_token_file, and that its policy allows all paths"
        if status == 404:
            return f"has no transit engine at {self._mount}: enable it, or correct vault_mount"
        if status == 503:
            return "is sealed or not ready: unseal it"
        if 300 <= status < 400:
            return f"redirects from {self._url}: set vault_url to the active node or the cluster"
        return f"answered {status}"

    def _token_problems(self) -> list[str]:
        """Say what the token may not do, and when it ends."""
        found = []
        paths = [f"{self._mount}/{path}" for path in _NEEDED]
        body = {"paths": paths}
        allowed = self._ask("POST", "capabilities-self", body, refused=True, mount="sys")
        for path, needed in zip(paths, _NEEDED.values(), strict=True) if allowed else ():
            has = set((allowed or {}).get("data", {}).get(path, []))
            if "root" not in has and (lacking := sorted(needed - has)):
                found.append(f"the token's policy must allow {', '.join(lacking)} on {path}")
        self_ = self._ask("GET", "lookup-self", refused=True, mount="auth/token")
        seconds = (self_ or {}).get("data", {}).get("ttl", 0)
        if 0 < seconds < _SOON:
            found.append(f"the token ends in {seconds // 60} minutes: renew it (Vault Agent does)")
        return found


def _errors(answer: httpx.Response) -> str:
    """Return Vault's own words, which name keys and paths but hold no secret."""
    try:
        told = answer.json().get("errors") or []
    except (ValueError, AttributeError):
        return ""
    return f" ({'; '.join(str(each) for each in told)[:300]})" if told else ""


def _is_out_of_use(state: Mapping[str, Any]) -> bool:
    """Return whether version 1 is gone, or an unfinished destruction has forbidden it."""
    oldest = max(state.get("min_available_version", 0), state.get("min_encryption_version", 0))
    return bool(oldest > 1)


def _gone_at(state: Mapping[str, Any] | None) -> datetime | None:
    """Return when version 1 was replaced for good; Vault keeps that time in whole seconds."""
    if state is None or state.get("min_available_version", 0) <= 1:
        return None
    newest = state["keys"][str(state["min_available_version"])]
    return datetime.fromtimestamp(int(newest), UTC)
