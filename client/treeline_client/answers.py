"""What discovery answers: which cluster is active, in which generation, and how to wait."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

MOST_BYTES = 1 << 20
"""An answer beyond this is none of Treeline's."""
_LONGEST_MS = 24 * 3600 * 1000


class NotAnAnswer(ValueError):
    """What came is no answer of discovery: not JSON, a field missing, or of the wrong kind."""


@dataclass(frozen=True, kw_only=True)
class Destination:
    """A cluster and what names are called there."""

    cluster: str
    # That the cluster is reached by other addresses, as when a node of the client's zone ends, is no move.
    bootstrap_servers: str = field(compare=False)
    topic_format: str
    group_format: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer of `GET /discovery`. Times are in milliseconds."""

    destination: Destination
    generation: int
    """Rises with each move, and never falls."""
    hold: bool
    """Producers are to pause, consumers to close, until the generation rises or this ends."""
    ttl_ms: int
    hold_ms: int
    """For how long a promise to keep still counts."""
    distributor_timeout_ms: int
    distributor_distance: int
    emergency: bool
    """How the last move was made: the cluster that was left is gone, and nobody waits for it."""
    arrived: bool
    """All that late producers sent to the cluster that was left has come to this one."""
    next: Destination | None
    """Where a running switch will go."""

    @property
    def cluster(self) -> str:
        """Name of the active cluster."""
        return self.destination.cluster

    @property
    def longest_way_s(self) -> float:
        """Seconds that the slowest record may take from the cluster that was left to any other."""
        return self.distributor_timeout_ms * self.distributor_distance / 1000


def parse(body: bytes) -> Answer:
    """Read an answer's JSON; unknown fields are left alone. Raises NotAnAnswer."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NotAnAnswer("it is not JSON") from error
    if not isinstance(found, dict):
        raise NotAnAnswer("it is not an object")
    phase = _text(found, "phase")
    if phase not in ("active", "hold"):
        raise NotAnAnswer(f"phase {phase[:40]!r} is unknown")
    ttl_ms = _number(found, "ttl_ms", 10_000, least=1)
    following = found.get("next")
    return Answer(
        destination=_destination(found),
        generation=_number(found, "generation", None, most=1 << 62),
        hold=phase == "hold",
        ttl_ms=ttl_ms,
        hold_ms=_number(found, "hold_ms", 15_000, least=1),
        distributor_timeout_ms=_number(found, "distributor_timeout_ms", 60_000),
        distributor_distance=_number(found, "distributor_distance", 1, most=1000),
        emergency=found.get("mode") == "emergency",
        arrived=found.get("arrived") is True,
        next=_destination(following) if isinstance(following, dict) else None,
    )


def _destination(found: dict[str, Any]) -> Destination:
    formats = found.get("formats")
    if not isinstance(formats, dict):
        raise NotAnAnswer("formats are missing")
    return Destination(
        cluster=_text(found, "cluster"),
        bootstrap_servers=_text(found, "bootstrap_servers"),
        topic_format=_text(formats, "topic"),
        group_format=_text(formats, "group"),
    )


def _text(found: dict[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str) or not value:
        raise NotAnAnswer(f"{name} is missing")
    return value


def _number(found: dict[str, Any], name: str, default: int | None, least: int = 0, most: int = _LONGEST_MS) -> int:
    value = found.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise NotAnAnswer(f"{name} is not a number between {least} and {most}")
    return value
