"""Three zones joined only by a router; each has an unmodified broker and a node as its main."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.kafka.zone_networks.counting import Counting
from tests.kafka.zone_networks.namespaces import ROUTER, Namespaces
from tests.support.kafka.three_brokers import NODES, RACKS, Brokers
from tests.support.zones.nodes import Router

REPLICAS = [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2], [2, 1, 3], [3, 2, 1]]
"""Replicas of six partitions, leader first: each broker leads two."""


@dataclass(frozen=True)
class Lab:
    """Running setup. Storage is a folder of this machine, so no network leads to it."""

    folder: Path
    namespaces: Namespaces
    brokers: Brokers
    router: Router
    counting: Counting

    def topic(self) -> str:
        """Create a topic with all replicas in sync."""
        name = f"zones-{secrets.token_hex(4)}"
        self.brokers.create(name, REPLICAS)
        return name

    def cold_reads(self) -> float:
        """Return the number of partitions that nodes read from another zone's leader."""
        return sum(sum(node.samples("cold_reads_total").values()) for node in self.router.nodes.values())

    def log_of(self, topic: str, partition: int) -> Path:
        """Return the folder of a partition's log on its leader."""
        return self.folder / str(REPLICAS[partition][0]) / "data" / f"{topic}-{partition}"

    def counted_by_nodes(self) -> Counter[tuple[str, str, str]]:
        """Return the counts of all nodes themselves: (from zone, plane, to zone) -> bytes."""
        found: Counter[tuple[str, str, str]] = Counter()
        for node in self.router.nodes.values():
            for (start, plane, end), count in node.samples("bytes_total").items():
                found[start, plane, end] += int(count)
        return found


@contextmanager
def running(folder: Path, *, by_storage: bool = True) -> Iterator[Lab]:
    """Start the setup; all traffic is counted from the first byte.

    Without storage, nodes forward requests directly to the leaders. Raises NoNamespaces.
    """
    namespaces = Namespaces(RACKS)
    ending = [namespaces.close]
    try:
        with namespaces.within(ROUTER):
            brokers = Brokers(folder, {zone: namespaces.site(zone) for zone in RACKS})
        router = Router(folder / "router", brokers, channel=by_storage, reads={} if by_storage else None)
        counting = Counting(namespaces, brokers, [router])
        ending += [counting.end, brokers.end, router.end]
        namespaces.connect()
        brokers.start(*NODES)
        router.start()
        yield Lab(folder, namespaces, brokers, router, counting)
    finally:
        for end in reversed(ending):
            end()
