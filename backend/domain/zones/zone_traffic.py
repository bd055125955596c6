"""Which of the zone router's bytes are paid for: what goes from one zone to another, and is records."""

from __future__ import annotations

UNKNOWN_ZONE = "unknown"
"""The zone of a client that neither its client.id nor its address tells, and of a broker without a rack."""
PLANES = ("produce", "fetch", "metadata", "group", "transaction", "route", "other")
"""What a frame is about; `route` is what proxies and mains say to each other."""
PAYLOAD_PLANES = ("produce", "fetch")
"""Their frames are records but for some dozens of bytes."""


def crosses(from_zone: str, to_zone: str) -> bool:
    """Whether it is known that a border was crossed."""
    return from_zone != to_zone and UNKNOWN_ZONE not in (from_zone, to_zone)


def is_paid_payload(plane: str, from_zone: str, to_zone: str) -> bool:
    """What the router is there to keep at nothing."""
    return plane in PAYLOAD_PLANES and crosses(from_zone, to_zone)
