"""A zone router for page tests: reporting nodes, and epochs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backend.deciders import ROUTE_EPOCHS
from backend.domain.zones.route_epochs import EVENT_STREAM, BeginEpoch, NodeLiveness
from tests.support.console.consoles import Console
from tests.support.console.visitors import record
from tests.support.database.postgres import Database
from tests.support.zones.zone_reports import report

ZONES = ("az1", "az2", "az3")
MIB = 1 << 20


def hops(plane: str, zone: str, *sizes: int) -> list[dict[str, Any]]:
    """Return the bytes from a zone to each zone."""
    return [
        {"plane": plane, "from_zone": zone, "to_zone": to, "bytes": size}
        for to, size in zip(ZONES, sizes, strict=True)
        if size
    ]


def traffic(number: int, crossing: int = 0) -> list[dict[str, Any]]:
    """Return a node's traffic: payload stays in its zone, except for `crossing` bytes."""
    zone, own = ZONES[number], [0, 0, 0]
    own[number] = (812 - 150 * number) * MIB
    read = [3 * size for size in own]
    read[(number + 1) % 3] = crossing
    return [
        *hops("produce", zone, *own),
        *hops("fetch", zone, *read),
        *hops("metadata", zone, *(41_000 if to == number else 5_200 for to in range(3))),
        *hops("group", zone, *(230_000 if to == number else 88_000 for to in range(3))),
        *hops("route", zone, *(1_900_000 if to == number else 2_100_000 for to in range(3))),
    ]


def reports(console: Console, epochs: Sequence[int | None] = (41, 41, 40), crossing: int = 0, **more: Any) -> None:
    """Send reports of three zones with a node each, which is a proxy and the main of a broker."""
    for number, (zone, epoch) in enumerate(zip(ZONES, epochs, strict=True)):
        told = report(zone, number + 1, epoch, traffic=traffic(number, crossing if number == 0 else 0))
        cache = {"bytes": (70 + 40 * number) * MIB, "most_bytes": 192 * MIB}
        console.rest.ok("POST", "/route-epochs/reports", {**told, "open_streams": 4, "cache": cache, **more})


def begin(database: Database, times: int, committed: int | None = None) -> None:
    """Begin epochs; `committed` is the epoch that all mains have in blocks."""
    main = NodeLiveness(
        node="m",
        is_main=True,
        reported_epoch=committed,
        open_streams=0,
        silent_seconds=0.0,
        unbroken_seconds=100.0,
    )
    for _ in range(times):
        record(database, BeginEpoch(fence_lag=2, nodes=(main,)), ROUTE_EPOCHS, EVENT_STREAM)
