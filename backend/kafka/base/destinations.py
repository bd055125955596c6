"""Check of the addresses of a cluster against the networks that settings deny, after name resolution.

The check runs where a client is created, before anything is sent. librdkafka resolves the names once more, and
brokers advertise others: a network that must never be reached needs a firewall as well.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping

from backend.domain.base.errors import AddressForbidden, FieldError, ValueInvalid
from backend.domain.clusters.client_properties import TOKEN_ENDPOINT
from backend.domain.webhooks.addresses import parse_receiver
from backend.domain.webhooks.denied_networks import forbidden, hosts_of, is_loopback, networks
from backend.settings import settings


def check_destinations(bootstrap_servers: str, properties: Mapping[str, str]) -> None:
    """Raise AddressForbidden for the first address that settings forbid. A name that does not resolve passes.

    `properties`: with their references resolved.
    """
    denied = networks(settings().denied_networks)
    for pointer, host in _destinations(bootstrap_servers, properties):
        for address in _addresses(host):
            network = forbidden(address, denied)
            if network is not None:
                said = address if address == host else f"{host[:100]} ({address})"
                detail = f"{said} is in {network}, to which nothing is sent (TREELINE_DENIED_NETWORKS)"
                raise AddressForbidden(detail, (FieldError(pointer, detail),))
    _check_token_endpoint(properties.get(TOKEN_ENDPOINT))


def _check_token_endpoint(url: str | None) -> None:
    """Raise AddressForbidden unless a token endpoint is an https address, or allowed on this machine."""
    if not url:
        return
    receiver = parse_receiver(url)
    if receiver.scheme == "https" or (settings().loopback_token_endpoints and is_loopback(receiver.host)):
        return
    detail = (
        "is to be an https address, since the client secret is sent to it; TREELINE_LOOPBACK_TOKEN_ENDPOINTS=true "
        "allows http to this machine's loopback addresses"
    )
    raise AddressForbidden(f"{TOKEN_ENDPOINT} {detail}", (FieldError(f"/properties/{TOKEN_ENDPOINT}", detail),))


def _destinations(bootstrap_servers: str, properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for host in hosts_of(bootstrap_servers):
        yield "/bootstrap_servers", host
    if properties.get(TOKEN_ENDPOINT):
        pointer = f"/properties/{TOKEN_ENDPOINT}"
        try:
            # Parsed strictly: the HTTP client must not take another part of it for the host.
            yield pointer, parse_receiver(properties[TOKEN_ENDPOINT]).host
        except ValueInvalid as error:
            detail = f"the address {error.detail}"
            raise AddressForbidden(f"{TOKEN_ENDPOINT}: {detail}", (FieldError(pointer, detail),)) from error


def _addresses(host: str) -> list[str]:
    # Resolved as connecting does: 0x7f.1 and 2130706433 are addresses, too.
    try:
        return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        return []
