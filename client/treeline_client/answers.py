"""Answers of discovery: the active cluster, its generation, and how clients wait during a switch."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

MOST_BYTES = 1 << 20
"""Limit above which an answer is not Treeline's."""
_LONGEST_MS = 24 * 3600 * 1000


class NotAnAnswer(ValueError):
    """A response that is no answer of discovery: it is not JSON, or a field is missing or of the wrong type."""


@dataclass(frozen=True, kw_only=True)
class Destination:
    """A cluster, with its formats of technical names."""

    cluster: str
    # Other addresses of the same cluster, as when a zone router's node ends, are not a move.
    bootstrap_servers: str = field(compare=False)
    topic_format: str
    group_format: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer of `GET /discovery`. Times are in milliseconds."""

    destination: Destination
    generation: int
    """Number that rises with each move and never falls."""
    hold: bool
    """True if producers must pause and consumers close, until the generation rises or the hold ends."""
    ttl_ms: int
    hold_ms: int
    """Duration for which a report that the client holds counts."""
    distributor_timeout_ms: int
    distributor_distance: int
    emergency: bool
    """True if the last move was an emergency: the old cluster is down, and clients do not wait for it."""
    arrived: bool
    """True if all records that late producers sent to the old cluster have arrived on this one."""
    next: Destination | None
    """Target of a running switch."""

    @property
    def cluster(self) -> str:
        """Return the name of the active cluster."""
        return self.destination.cluster

    @property
    def longest_way_s(self) -> float:
        """Return for how many seconds the slowest record may travel from the old cluster to any other."""
        return self.distributor_timeout_ms * self.distributor_distance / 1000


def parse(body: bytes) -> Answer:
    """Parse an answer's JSON, ignoring unknown fields. Raises NotAnAnswer."""
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
