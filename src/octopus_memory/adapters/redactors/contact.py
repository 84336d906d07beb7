"""Detectors of e-mail addresses and IP addresses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from .folding import Span

_EMAIL = re.compile(r"(?<![\w.+-])\w[\w.+%'-]{0,99}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w])")
_AT = r"[ ]?[(\[{][ ]?at[ ]?[)\]}][ ]?|[ ]at[ ]"
_DOT = r"[ ]?[(\[{][ ]?dot[ ]?[)\]}][ ]?|[ ]dot[ ]"
_SPELT = re.compile(
    rf"(?<![\w.+-])\w[\w.+-]{{0,63}}(?:{_AT})[\w-]{{1,63}}"
    rf"(?:(?:{_DOT}|\.)[\w-]{{1,63}}){{0,3}}(?:{_DOT})[^\W\d_]{{2,12}}(?!\w)",
    re.IGNORECASE,
)
_SPELT_HINT = re.compile(r"[ (\[{]dot[ )\]}]", re.IGNORECASE)

_IPV4 = re.compile(r"(?<![\w.-])\d{1,3}(?:\.\d{1,3}){3}(?![\w-])(?!\.\d)")
_IPV6 = re.compile(
    r"(?<![\w:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:(?<=:)\d{1,3}(?:\.\d{1,3}){3})?(?![\w:])"
)
_CUE = re.compile(
    r"\b(?:(?P<version>versions?|ver|v|release[ds]?|builds?|firmware|section|chapter|revision|"
    r"rev|upgraded?|updated?|downgraded?|patch|clause|package|driver|schema|oid)|"
    r"ip|ips|ipv4|host|server|router|ping|ssh|address(?:es)?|client|login|logged|dns|vpn|"
    r"firewall|network|subnet|gateway|proxy|connect(?:ed|ion)?|port|node|forwarded)\b",
    re.IGNORECASE,
)
_CUE_REACH = 48
_SMALL_OCTET = 31


def emails(text: str) -> Iterator[Span]:
    if "@" in text:
        yield from (found.span() for found in _EMAIL.finditer(text))
    if _SPELT_HINT.search(text):
        yield from (found.span() for found in _SPELT.finditer(text))


def ip_addresses(text: str) -> Iterator[Span]:
    """Addresses that may be a person's: not loopback, multicast, unspecified or a version."""
    for found in _IPV4.finditer(text):
        if _is_personal(found.group()) and not _is_version(found):
            yield found.span()
    for found in _IPV6.finditer(text):
        group = found.group()
        if any(char.isdigit() for char in group) and _is_personal(group):
            yield found.span()


def _is_personal(group: str) -> bool:
    try:
        address = ipaddress.ip_address(group)
    except ValueError:
        return False
    nobody = address.is_loopback or address.is_multicast or address.is_unspecified
    return not nobody and not group.startswith("255.")


def _is_version(found: re.Match[str]) -> bool:
    """True if the nearest cue on the line says so, or without a cue, if all numbers are small."""
    start = found.start()
    before = found.string[max(0, start - _CUE_REACH) : start]
    line = re.split(r"[\n\x1e]", before)[-1]
    cues = list(_CUE.finditer(line))
    if cues:
        return cues[-1]["version"] is not None
    octets = [int(octet) for octet in found.group().split(".")]
    return octets[0] != 10 and max(octets) <= _SMALL_OCTET
