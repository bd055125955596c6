"""Decides without origins whether targets have all records of one moment, by positions from hop to hop.

Every record on the source was produced on some leaf before the moment and reaches a target along that leaf's
route. So at the moment all leaves are queried for their log ends. Once the task of a route's first hop has read
up to there, the next leaf has those records and is queried for its log end; and so on to the target. The check is
stricter than needed (it also waits for records that have not reached the source), and never wrong. A leaf that is
unreachable is left out: records produced there are not waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from backend.domain.tree import routes
from backend.domain.tree.routes import Edge
from backend.kafka.logs.log_ranges import LogRange
from workers.switches.estate_view import EstateView
from workers.switches.marked_log import FAR_RECORDS
from workers.switches.topology import Partition, Place, Topology


@dataclass
class _Chain:
    """Records of one partition on their way to a target."""

    partition: Partition
    target: str
    hops: Sequence[Edge]
    required: int
    """Log end of the first hop's source; the hop's task must read up to there."""
    position: int = 0


class Hops:
    """Chains of hops of one drain. Used by one thread; methods raise KafkaCallFailed."""

    def __init__(self, estate: EstateView, source: str, targets: Sequence[str]) -> None:
        self._estate, self._source, self._targets = estate, source, targets
        self._chains: list[_Chain] = []
        self._places: list[tuple[Partition, str]] = []

    def mark(self, topology: Topology, partitions: Sequence[Partition]) -> None:
        """Record the present log ends of the source and of all leaves whose records may still be on their way."""
        self._chains = []
        self._places = [(partition, target) for partition in partitions for target in self._targets]
        leaves = [self._source, *(each for each in topology.routes if each != self._source)]
        for leaf in leaves:
            if leaf != self._source and leaf not in topology.known.clusters:
                continue
            ends = self._ends(topology, leaf, partitions)
            for target in self._targets:
                hops = routes.way(topology.routes.get(leaf, ()), leaf, target)
                self._chains += [_Chain(place, target, hops, end) for place, end in ends.items() if hops]

    def observe(self, topology: Topology) -> Iterator[tuple[Partition, str, int]]:
        """Yield (partition, target, upper bound of missing records)."""
        self._read_positions(topology)
        passed = [chain for chain in self._chains if self._has_passed(topology, chain)]
        arrived: dict[str, list[_Chain]] = {}
        for chain in passed:
            arrived.setdefault(chain.hops[0].target, []).append(chain)
            chain.hops = chain.hops[1:]
        self._chains = [chain for chain in self._chains if chain.hops]
        for leaf, chains in arrived.items():
            left = [chain for chain in chains if chain.hops]
            ends = self._ends(topology, leaf, [chain.partition for chain in left])
            for chain in left:
                chain.required, chain.position = ends.get(chain.partition, chain.required), 0
        missing: dict[tuple[Partition, str], int] = dict.fromkeys(self._places, 0)
        for chain in self._chains:
            missing[chain.partition, chain.target] += max(1, chain.required - chain.position)
        yield from ((partition, target, count) for (partition, target), count in missing.items())

    def _ends(self, topology: Topology, leaf: str, partitions: Iterable[Partition]) -> dict[Partition, int]:
        places = {topology.place(leaf, partition): partition for partition in partitions}
        wanted = [place for place in places if place is not None]
        found = self._estate.clients(topology.clusters[leaf]).ends(wanted, undecided_too=True) if wanted else {}
        return {places[place]: end for place, (_, end) in found.items()}

    def _read_positions(self, topology: Topology) -> None:
        wanted: dict[str, dict[str, set[Place]]] = {}
        by_key: dict[tuple[str, Place, str], list[_Chain]] = {}
        for chain in self._chains:
            hop = chain.hops[0]
            place = topology.place(hop.target, chain.partition)
            group = topology.task(hop.source, hop.level, chain.partition).kafka_name
            if place is not None:
                wanted.setdefault(hop.target, {}).setdefault(group, set()).add(place)
                by_key.setdefault((hop.target, place, group), []).append(chain)
        for target, groups in wanted.items():
            found = self._estate.clients(topology.clusters[target]).positions(groups)
            for place, by_group in found.items():
                for group, position in by_group.items():
                    for chain in by_key[target, place, group]:
                        chain.position = position.offset

    def _has_passed(self, topology: Topology, chain: _Chain) -> bool:
        """Return whether the task has read everything, also if only markers remain, which readers never see."""
        if chain.position >= chain.required:
            return True
        hop = chain.hops[0]
        place = topology.place(hop.source, chain.partition)
        if place is None:
            return True
        if chain.required - chain.position > FAR_RECORDS:
            return False
        clients = self._estate.clients(topology.clusters[hop.source])
        low, decided = clients.ends([place]).get(place, (0, 0))
        if low >= chain.required:
            return True
        if decided < chain.required:
            return False
        read = LogRange(
            log=0, topic=place[0], partition=place[1], first=max(low, chain.position), end=chain.required
        )
        return not any(messages for _, messages in clients.reader.messages([read]))
