"""Addresses of clients, as wrong credentials are counted by them."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

_LONGEST = 100


def network_of(host: str) -> str:
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
