"""Addresses that the control plane may call because a user has entered them: receivers of webhooks.

A control plane is inside the network. Users who enter an address for it to call could otherwise reach what only it
can reach: its database, a cloud's metadata service, a neighbour's admin port (CWE-918). So public addresses are
allowed, and others only where a setting names their network. A name is judged by each address that it resolves to,
at the moment of connecting: an earlier resolution proves nothing.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass

from backend.domain.base.errors import ValueInvalid

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

LONGEST_URL = 2000
PORTS = {"http": 80, "https": 443}
# Groups: the authority, up to a path or a query; path and query; a fragment.
_URL = re.compile(r"(https?)://([^/?#]*)([^#]*)(#.*)?", re.IGNORECASE)
_AUTHORITY = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::([0-9]{1,5}))?", re.IGNORECASE)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_NAT64_OF_A_NETWORK = ipaddress.IPv6Network("64:ff9b:1::/48")  # RFC 8215
_CARRY_AT_THE_END = (
    ipaddress.IPv6Network("::/96"),  # IPv4-compatible (RFC 4291, 2.5.5.1)
    ipaddress.IPv6Network("::ffff:0:0/96"),  # IPv4-mapped
    ipaddress.IPv6Network("::ffff:0:0:0/96"),  # IPv4-translated, SIIT (RFC 2765)
    _NAT64,
    _NAT64_OF_A_NETWORK,
)
# IANA's special-purpose registries, multicast, and ranges that are partly public but hold no receivers.
_SPECIAL_IPV4 = tuple(
    map(
        ipaddress.IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24"),
            *("192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
            *("224.0.0.0/4", "240.0.0.0/4"),
        ),
    )
)
_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All addresses that are assigned as global unicast (RFC 4291, 2.4)."""
_SPECIAL_IPV6 = tuple(
    map(
        ipaddress.IPv6Network,
        ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3ffe::/16", "3fff::/20"),
    )
)


def parse_networks(text: str) -> tuple[Network, ...]:
    """Parse networks such as `10.1.0.0/16, fd00::/8`. Raises ValueError that names the invalid one."""
    return tuple(ipaddress.ip_network(each.strip()) for each in text.split(",") if each.strip())


def address_of(host: str) -> Address | None:
    """Return the address that a URL's host is, without brackets; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def refusal(address: Address, allowed: Sequence[Network]) -> str | None:
    """Return why an address must not be called; None if it may be."""
    effective = _effective(address)
    if any(effective in network for network in allowed if network.version == effective.version):
        return None
    if _is_public(effective):
        return None
    return f"{address} is not a public address and not in a network of the setting webhook_allowed_networks"


def _is_public(address: Address) -> bool:
    # Own tables, since the answer of `is_global` depends on Python's version.
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _SPECIAL_IPV4)
    return address in _UNICAST and not any(address in network for network in _SPECIAL_IPV6)


def _effective(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address surely stands for, else the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return _ipv4(address.packed[12:])
    return address.ipv4_mapped or address


def possible_addresses(address: Address) -> tuple[Address, ...]:
    """Return an address, and each IPv4 address that an IPv6 address may be translated to by a gateway."""
    if isinstance(address, ipaddress.IPv4Address):
        return (address,)
    packed = address.packed
    carried = []
    # :: and ::1 look like IPv4-compatible addresses and are none (RFC 4291, 2.5.5.1).
    if int(address) > 1 and any(address in network for network in _CARRY_AT_THE_END):
        carried.append(packed[12:])
    if address in _NAT64_OF_A_NETWORK:
        # Which length its prefix has is that network's choice; octet 8 carries nothing (RFC 6052, 2.2).
        without = packed[:8] + packed[9:]
        carried += [without[start : start + 4] for start in (6, 7, 8)]
    if address.sixtofour:
        carried.append(address.sixtofour.packed)
    if address.teredo:
        carried += [each.packed for each in address.teredo]
    return (address, *dict.fromkeys(map(_ipv4, carried)))


def _ipv4(four: bytes) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(four)


@dataclass(frozen=True)
class Receiver:
    """Receiver of a webhook.

    `host`: name, or address without brackets; `authority`: host and port as in the URL.
    """

    scheme: str
    host: str
    port: int
    authority: str
    target: str
    """Path and query."""


def parse_receiver(url: str) -> Receiver:
    """Return the parts of a receiver's URL. Raises ValueInvalid for an unusable URL.

    Stricter than the standards on purpose: a URL whose host two parsers could read differently is refused.
    """
    if len(url) > LONGEST_URL:
        raise ValueInvalid(f"has {len(url)} characters; the limit is {LONGEST_URL}")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueInvalid("has characters that a URL cannot have: encode spaces and the like, as %20")
    parts = _URL.fullmatch(url)
    authority = parts[2] if parts else ""
    if "@" in authority:
        raise ValueInvalid(
            "contains a login, which all readers of the log would see: receivers verify the signature instead"
        )
    who = _AUTHORITY.fullmatch(authority)
    if parts is None or who is None or (who[1] and address_of(who[1]) is None):
        raise ValueInvalid("must be a URL such as https://receiver.example/treeline")
    if parts[4]:
        raise ValueInvalid("ends with a #fragment, which is never sent")
    scheme = parts[1].lower()
    port = int(who[3]) if who[3] else PORTS[scheme]
    if not 1 <= port <= 65535:
        raise ValueInvalid(f"has port {port}; ports are 1 to 65535")
    target = parts[3] if parts[3].startswith("/") else f"/{parts[3]}"
    return Receiver(scheme, who[1] or who[2], port, authority, target)
