"""How fast replicas are moved, as commands take it and tell it: what is not named stays as it is."""

from __future__ import annotations

from typing import Any

import typer

from backend.commands.distribution.distributor import rate_of


def named_limits(rate: str | None, moves: int | None, partitions: int | None) -> dict[str, int | None]:
    """Those that were named, as the REST API takes them. Exits with 2 for a rate that is none."""
    named: dict[str, int | None] = {} if rate is None else {"bytes_per_second": rate_of(rate)}
    limits = {"moves_per_broker": moves, "partitions_at_once": partitions}
    return named | {name: value for name, value in limits.items() if value is not None}


def say_limits(row: dict[str, Any]) -> None:
    """Those that hold for a placement, on stderr; nothing of one that was never carried out."""
    limits = row["limits"]
    if limits is None:
        return
    rate = limits["bytes_per_second"]
    fast = "as fast as brokers can" if rate is None else f"{rate:,} bytes a second and broker"
    typer.echo(
        f"limits: {fast}, {limits['moves_per_broker']:,} moves of a broker and {limits['partitions_at_once']:,} "
        "partitions at once",
        err=True,
    )
