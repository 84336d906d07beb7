"""Recognises requests from programs on this machine, for development mode."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address

from starlette.types import Scope

from .problems import Refused

_HOST = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::([0-9]{1,5}))?", re.IGNORECASE)
_LAST_PORT = 65_535
_FORWARDING = frozenset(
    {
        b"cf-connecting-ip",
        b"fastly-client-ip",
        b"fly-client-ip",
        b"forwarded",
        b"true-client-ip",
        b"via",
        b"x-client-ip",
        b"x-cluster-client-ip",
        b"x-original-forwarded-for",
        b"x-original-host",
        b"x-real-ip",
    }
)
_FORWARDED = b"x-forwarded-"


def check_local(scope: Scope) -> None:
    """Refuse requests from other machines, from proxies and from pages of other sites.

    The address alone does not tell, because a proxy on this machine has a loopback address too;
    nor does Host, because a proxy may put its own.

    :raises Refused: it is not this machine's own
    """
    names = [name for name, _ in scope["headers"]]
    if any(name in _FORWARDING or name.startswith(_FORWARDED) for name in names):
        raise _refused("development mode does not accept requests from a proxy")
    if not _is_loopback(scope["client"][0] if scope.get("client") else ""):
        raise _refused("development mode accepts requests from this machine only")
    hosts = _values(scope, b"host")
    if len(hosts) != 1 or not _is_local_host(hosts[0]):
        raise _refused(
            "development mode accepts requests from this machine only: Host must be localhost"
        )
    if not all(is_own_page(scope, origin) for origin in _values(scope, b"origin")):
        raise _refused("development mode does not accept requests from pages of other sites")


def is_own_page(scope: Scope, origin: str) -> bool:
    """Return whether an origin is this service, reached by a name of this machine.

    Any other name in Host may be one that an attacker has made to lead here (DNS rebinding).
    """
    hosts = _values(scope, b"host")
    if len(hosts) != 1 or not _is_local_host(hosts[0]):
        return False
    return origin in {f"http://{hosts[0]}", f"https://{hosts[0]}"}


def _is_loopback(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _is_local_host(host: str) -> bool:
    found = _HOST.fullmatch(host)
    return found is not None and int(found[1] or 0) <= _LAST_PORT


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for each, value in scope["headers"] if each == name]


def _refused(detail: str) -> Refused:
    return Refused(403, "forbidden", detail)
