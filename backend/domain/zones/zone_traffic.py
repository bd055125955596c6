"""Classify the zone router's traffic: cross-zone record payload is what cloud providers charge for."""

from __future__ import annotations

UNKNOWN_ZONE = "unknown"
"""Zone of a client whose client.id and address both tell none, and of a broker without a rack."""
PLANES = ("produce", "fetch", "metadata", "group", "transaction", "route", "other")
"""Traffic planes, by the request that a frame carries; `route` is the traffic between proxies and mains."""
PAYLOAD_PLANES = ("produce", "fetch")
"""Planes whose frames are records, apart from some dozens of bytes."""


def crosses(from_zone: str, to_zone: str) -> bool:
    """Return whether both zones are known and differ."""
    return from_zone != to_zone and UNKNOWN_ZONE not in (from_zone, to_zone)


def is_paid_payload(plane: str, from_zone: str, to_zone: str) -> bool:
    """Return whether these bytes are cross-zone payload, which the router exists to keep at zero."""
    return plane in PAYLOAD_PLANES and crosses(from_zone, to_zone)
