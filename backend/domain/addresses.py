"""Which addresses Treeline sends something to because somebody has typed them in: webhooks' receivers.

A control plane stands inside the network. Who may name an address for it to call could otherwise reach what
only it can reach: its database, a cloud's metadata service, a neighbour's admin port (CWE-918). So public
addresses are allowed, and others only where a setting names their network. A name is judged by each address
that it resolves to, at the moment of connecting: what it resolved to before says nothing.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

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
    reached = _reached(address)
    if any(reached in network for network in allowed if network.version == reached.version):
        return None
    if reached.is_global and not reached.is_multicast:
        return None
    return f"{address} is no public address, and in none of the networks that webhook_allowed_networks names"


def _reached(address: Address) -> Address:
    """The IPv4 address that an IPv6 one only carries, else itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    carried = address.ipv4_mapped or address.sixtofour
    if carried is None and address in _NAT64:
        carried = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return carried or address
