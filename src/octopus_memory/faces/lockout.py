"""The lockout of those who guess credentials, one for all faces of a process."""

from __future__ import annotations

import time
from collections import OrderedDict
from ipaddress import ip_address, ip_network

_LONGEST = 100
_MOST_TRACKED = 50_000


class Lockout:
    """Counts wrong credentials by network, and locks out those that send too many.

    Each process counts its own, because a valid credential is never refused for it.
    """

    def __init__(self, tries: int, seconds: float = 60.0) -> None:
        self._tries = tries
        self._seconds = seconds
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def left(self, host: str) -> float:
        """Return the seconds for which wrong credentials of an address are not looked at."""
        count, until = self._failures.get(_network_of(host), (0, 0.0))
        remaining = until - time.monotonic()
        return remaining if count >= self._tries and remaining > 0 else 0.0

    def failed(self, host: str) -> None:
        """Count a wrong credential."""
        now, network = time.monotonic(), _network_of(host)
        count, until = self._failures.pop(network, (0, 0.0))
        self._failures[network] = (count + 1 if until > now else 1, now + self._seconds)
        if len(self._failures) > _MOST_TRACKED:
            self._failures.popitem(last=False)


def _network_of(host: str) -> str:
    """Return the network that a client's wrong credentials count for: of IPv6 its /64.

    A subscriber has a whole /64, and could send each guess from another address.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host[:_LONGEST]
    if address.version == 6 and address.ipv4_mapped is None:
        return str(ip_network((address, 64), strict=False))
    return host
