"""What went between zones while clients did something: by the independent count, and by the router's counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tests.placement_live.brokers import RACKS
from tests.zone_router_zones.clients import FAMILIES, everywhere, new_canary, produce, records_of
from tests.zone_router_zones.counting import Traffic
from tests.zone_router_zones.lab import Lab

COUNT, SIZE = 400, 1_000
"""Records of each zone's clients of each family, and the size of a value in bytes."""
PAYLOAD = COUNT * SIZE * len(FAMILIES)
"""Bytes of values that are produced in a zone."""


@dataclass(frozen=True)
class Moved:
    traffic: Traffic
    counted: Counter[tuple[str, str, str]]
    """By the router itself: (from zone, plane, to zone) -> bytes."""

    def crossing(self, plane: str) -> dict[tuple[str, str, str], int]:
        """What the router says has gone from one zone to another."""
        return {hop: size for hop, size in self.counted.items() if hop[1] == plane and hop[0] != hop[2]}

    def within(self, zone: str, plane: str) -> int:
        """What the router says has stayed in a zone."""
        return self.counted[zone, plane, zone]


@dataclass(frozen=True)
class Produced:
    """By clients of both families in all zones, each by its zone's node, to leaders in all zones."""

    topic: str
    canary: str
    records: dict[tuple[str, str], dict[str, str]]
    moved: Moved


def moved_by(lab: Lab, work: Callable[[], None]) -> Moved:
    before, counted_before = lab.counting.traffic(), lab.counted_by_nodes()
    work()
    return Moved(lab.counting.traffic().since(before), lab.counted_by_nodes() - counted_before)


def produced_in(lab: Lab) -> Produced:
    topic, canary = lab.topic(), new_canary()
    lab.counting.watch(canary)
    records = {
        (zone, family): records_of(zone, family, canary, COUNT, SIZE) for zone in RACKS for family in FAMILIES
    }

    def work() -> None:
        everywhere(lab, lambda zone, family: produce(lab, topic, zone, family, records[zone, family]))

    return Produced(topic, canary, records, moved_by(lab, work))


def assert_nobody_strays(traffic: Traffic) -> None:
    """Nobody speaks to another zone's proxy, or to what is not known."""
    known = traffic.of_plane("client", "route", "replication", "controller")
    assert known == traffic.sent.total() and traffic.of_kind("unasked") == 0, traffic.table()
