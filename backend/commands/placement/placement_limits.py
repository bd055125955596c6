"""Limits of moving replicas, as options and as output; omitted limits stay as they are."""

from __future__ import annotations

from typing import Any

import typer

from backend.commands.distribution.distributor import rate_of


def named_limits(rate: str | None, moves: int | None, partitions: int | None) -> dict[str, int | None]:
    """Return the limits that were given, as the REST API takes them. Exits with 2 for an invalid rate."""
    named: dict[str, int | None] = {} if rate is None else {"bytes_per_second": rate_of(rate)}
    limits = {"moves_per_broker": moves, "partitions_at_once": partitions}
    return named | {name: value for name, value in limits.items() if value is not None}


def print_limits(row: dict[str, Any]) -> None:
    """Print the limits of a placement to stderr; nothing if it was never applied."""
    limits = row["limits"]
    if limits is None:
        return
    rate = limits["bytes_per_second"]
    throttle = "no throttle" if rate is None else f"{rate:,} bytes/s per broker"
    typer.echo(
        f"limits: {throttle}, {limits['moves_per_broker']:,} concurrent moves per broker, "
        f"{limits['partitions_at_once']:,} concurrent partitions",
        err=True,
    )
