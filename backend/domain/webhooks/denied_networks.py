"""Networks that settings forbid: nothing is sent to their addresses, whoever enters them.

A user who may add a cluster could otherwise make the control plane connect to what only it can reach: a cloud's
metadata service, which gives credentials to any process on the right machine, or a database beside it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

from backend.domain.webhooks.addresses import Network, possible_addresses


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Parse networks; an address is a network of one. Raises ValueError that names the invalid one."""
    return tuple(ipaddress.ip_network(text.strip()) for text in texts)


def forbidden(address: str, denied: Sequence[Network]) -> Network | None:
    """Return the network that forbids a numeric address; None if none does."""
    found = possible_addresses(ipaddress.ip_address(address.partition("%")[0]))
    return next((network for network in denied if any(each in network for each in found)), None)


def is_loopback(host: str) -> bool:
    """Tell whether a host, a name or an address without brackets, is this machine and no other."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def hosts_of(bootstrap_servers: str) -> list[str]:
    """Return the hosts of a bootstrap list: `host:port` by commas, IPv6 in brackets, an optional scheme before."""
    hosts = []
    for server in bootstrap_servers.split(","):
        place = server.strip().rpartition("://")[2]
        host = place[1:].partition("]")[0] if place.startswith("[") else place.rpartition(":")[0] or place
        if host:
            hosts.append(host)
    return hosts
