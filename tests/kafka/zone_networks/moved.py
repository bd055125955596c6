"""Traffic between zones during a client run, by the independent count and by the router's counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tests.kafka.zone_networks.clients import FAMILIES, everywhere, new_canary, produce, records_of
from tests.kafka.zone_networks.counting import Traffic
from tests.kafka.zone_networks.lab import Lab
from tests.support.kafka.three_brokers import RACKS

COUNT, SIZE = 400, 1_000
"""Records per zone and client family, and the size of a value in bytes."""
PAYLOAD = COUNT * SIZE * len(FAMILIES)
"""Bytes of values produced in a zone."""


@dataclass(frozen=True)
class Moved:
    traffic: Traffic
    counted: Counter[tuple[str, str, str]]
    """Counts of the router itself: (from zone, plane, to zone) -> bytes."""

    def crossing(self, plane: str) -> dict[tuple[str, str, str], int]:
        """Return the bytes that crossed zones, according to the router."""
        return {hop: size for hop, size in self.counted.items() if hop[1] == plane and hop[0] != hop[2]}

    def within(self, zone: str, plane: str) -> int:
        """Return the bytes that stayed in a zone, according to the router."""
        return self.counted[zone, plane, zone]


@dataclass(frozen=True)
class Produced:
    """Records produced by clients of both families in all zones, each through its zone's node, to all leaders."""

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
    """Assert that no client connected to another zone's proxy or to an unknown listener."""
    known = traffic.of_plane("client", "route", "replication", "controller")
    assert known == traffic.sent.total() and traffic.of_kind("unasked") == 0, traffic.table()
