"""Which addresses Treeline sends something to because somebody has typed them in: webhooks' receivers.

A control plane stands inside the network. Who may name an address for it to call could otherwise reach what
only it can reach: its database, a cloud's metadata service, a neighbour's admin port (CWE-918). So public
addresses are allowed, and others only where a setting names their network. A name is judged by each address
that it resolves to, at the moment of connecting: what it resolved to before says nothing.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass

from backend.domain.errors import ValueInvalid

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

LONGEST_URL = 2000
PORTS = {"http": 80, "https": 443}
# What follows the scheme up to a path or a query; a path and a query; a fragment.
_URL = re.compile(r"(https?)://([^/?#]*)([^#]*)(#.*)?", re.IGNORECASE)
_AUTHORITY = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::([0-9]{1,5}))?", re.IGNORECASE)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def networks_of(text: str) -> tuple[Network, ...]:
    """Networks such as `10.1.0.0/16, fd00::/8`. Raises ValueError that names what is none."""
    return tuple(ipaddress.ip_network(each.strip()) for each in text.split(",") if each.strip())


def address_of(host: str) -> Address | None:
    """The address that a URL's host is, without brackets; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def refusal(address: Address, allowed: Sequence[Network]) -> str | None:
    """Why nothing is sent to an address; None if something may be."""
    meant = reached(address)
    if any(meant in network for network in allowed if network.version == meant.version):
        return None
    if meant.is_global and not meant.is_multicast:
        return None
    return f"{address} is no public address, and in none of the networks that webhook_allowed_networks names"


def reached(address: Address) -> Address:
    """The IPv4 address that an IPv6 one only carries, else itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    carried = address.ipv4_mapped or address.sixtofour
    if carried is None and address in _NAT64:
        carried = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return carried or address


@dataclass(frozen=True)
class Receiver:
    """Who is called: `host` is a name or an address without brackets, `authority` both as the URL has them."""

    scheme: str
    host: str
    port: int
    authority: str
    target: str
    """Path and query."""


def receiver_at(url: str) -> Receiver:
    """The parts of a receiver's URL. Raises ValueInvalid for what cannot be one.

    Narrower than the standards on purpose: what two readers could take for different hosts is none.
    """
    if len(url) > LONGEST_URL:
        raise ValueInvalid(f"has {len(url)} characters, at most {LONGEST_URL} are allowed")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueInvalid("has characters that no address has: write spaces and the like as %20")
    parts = _URL.fullmatch(url)
    authority = parts[2] if parts else ""
    if "@" in authority:
        raise ValueInvalid("holds a login, which everybody would see: receivers know requests by their signature")
    who = _AUTHORITY.fullmatch(authority)
    if parts is None or who is None or (who[1] and address_of(who[1]) is None):
        raise ValueInvalid("is to be like https://receiver.example/treeline")
    if parts[4]:
        raise ValueInvalid("ends with a #fragment, which is never sent")
    scheme = parts[1].lower()
    port = int(who[3]) if who[3] else PORTS[scheme]
    if not 1 <= port <= 65535:
        raise ValueInvalid(f"names port {port}, and ports are 1 to 65535")
    target = parts[3] if parts[3].startswith("/") else f"/{parts[3]}"
    return Receiver(scheme, who[1] or who[2], port, authority, target)
