"""Positions of the tasks that read a cluster's logs, which tell the vectors before them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from backend.domain.distribution.rescan import Checkpoint
from backend.domain.records.incarnations import Incarnations
from backend.domain.records.log_index import Prefix
from backend.kafka.base.errors import KafkaCallFailed
from workers.switches.estate_view import EstateView
from workers.switches.prefixes import bases_of
from workers.switches.topology import Partition, Place, Topology


def read(
    topology: Topology, estate: EstateView, source: str, incarnations: Mapping[Partition, Incarnations]
) -> dict[Partition, list[Prefix]]:
    """Return, by partition, the positions of all tasks that read it, with the vectors before them.

    `incarnations`: incarnations of the cluster's logs. A target that is unreachable is left out.
    """
    wanted: dict[str, dict[str, list[Place]]] = {}
    by_place: dict[tuple[str, Place], Partition] = {}
    for partition in incarnations:
        for target, group in topology.outgoing(source, partition):
            place = topology.place(target, partition)
            if place is not None and target in topology.known.clusters:
                wanted.setdefault(target, {}).setdefault(group, []).append(place)
                by_place[target, place] = partition
    found: dict[Partition, list[Prefix]] = {}
    for target, groups in wanted.items():
        try:
            told = estate.clients(topology.clusters[target]).positions(groups)
        except KafkaCallFailed:
            continue  # the other targets may suffice; otherwise more of the log is read
        for place, by_group in told.items():
            partition = by_place[target, place]
            places: Iterable[Checkpoint] = (
                Checkpoint(each.offset, each.mark.incarnation, each.mark.seen) for each in by_group.values()
            )
            found.setdefault(partition, []).extend(bases_of(places, incarnations[partition]))
    return found
