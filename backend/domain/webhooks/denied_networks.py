"""To which addresses nothing is sent, whoever names them: networks that settings forbid.

Who may add a cluster could otherwise make the control plane ask what only it can reach: a cloud's metadata
service, which gives credentials to whoever asks from the right machine, or a database beside it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

from backend.domain.webhooks.addresses import Network, readings


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """The networks of these texts; an address is a network of one. Raises ValueError naming what is none."""
    return tuple(ipaddress.ip_network(text.strip()) for text in texts)


def forbidden(address: str, denied: Sequence[Network]) -> Network | None:
    """The network that forbids an address, which is one in digits; None if none does."""
    found = readings(ipaddress.ip_address(address.partition("%")[0]))
    return next((network for network in denied if any(each in network for each in found)), None)


def is_loopback(host: str) -> bool:
    """Return whether a host, a name or an address without brackets, is this machine and no other."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def hosts_of(bootstrap_servers: str) -> list[str]:
    """The hosts of a list as Kafka's clients take it: `host:port` by commas, IPv6 in brackets, a scheme before."""
    hosts = []
    for server in bootstrap_servers.split(","):
        place = server.strip().rpartition("://")[2]
        host = place[1:].partition("]")[0] if place.startswith("[") else place.rpartition(":")[0] or place
        if host:
            hosts.append(host)
    return hosts
