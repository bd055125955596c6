"""Brokers that were added to an estate while it ran, and checks of which may be added or removed.

They are stored beside the estate's data, so that `up` brings them back after `down`; `down --wipe` deletes them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import asdict

from backend.estate.document import ClusterSpec, Estate
from backend.estate.document_sections import MOST_BROKERS, ZONE_NAME
from backend.estate.home import Home
from backend.estate.processes import write_private
from backend.estate.programs.broker import AddedBroker, BrokerPorts

FILE = "added-brokers.json"


class AddedDoNotFit(ValueError):
    """The estate file and the brokers that were added to the estate contradict each other."""


class BrokerRefused(ValueError):
    """A broker cannot be added or removed as requested; the text says why, and what to do."""


class BrokerHoldsReplicas(BrokerRefused):
    """A broker cannot be removed while it holds replicas."""

    def __init__(self, cluster: str, node: int, replicas: dict[str, int]) -> None:
        self.replicas = replicas  # by topic
        count, topics = sum(replicas.values()), sorted(replicas)
        named = ", ".join(topics[:3]) + (f" and {len(topics) - 3} more" if len(topics) > 3 else "")
        super().__init__(
            f"broker {node} of {cluster} holds {count} {'replica' if count == 1 else 'replicas'} ({named}). "
            f"Move them away first: `treeline placement plan` with target_brokers without {node}, then "
            "`treeline placement apply`. With --force, records that only this broker has are lost."
        )


def read_added(home: Home, estate: Estate) -> tuple[AddedBroker, ...]:
    """Return the brokers that were added to the estate of this name. Raises AddedDoNotFit."""
    path = home.data(estate.name) / FILE
    rows = json.loads(path.read_text()) if path.exists() else []
    added = tuple(AddedBroker(**{**row, "ports": BrokerPorts(**row["ports"])}) for row in rows)
    for one in added:
        cluster = estate.cluster(one.cluster)
        if cluster is None or one.node <= cluster.brokers:
            lacks = "has no such cluster" if cluster is None else "names a broker of this number itself"
            raise AddedDoNotFit(
                f"Broker {one.node} was added to {one.cluster} by `treeline estate add-broker`, and the estate "
                f"file {lacks}. Start with the file as it was and remove the broker with `treeline estate "
                f"remove-broker {one.cluster} {one.node}`, or start over after `treeline down --wipe`."
            )
    return added


def save_added(home: Home, estate: Estate, added: Iterable[AddedBroker]) -> None:
    """Store exactly these brokers for the next `up`."""
    write_private(home.data(estate.name) / FILE, json.dumps([asdict(one) for one in added], indent=1))


def cluster_named(estate: Estate, name: str) -> ClusterSpec:
    """Return the estate's cluster of this name; raises BrokerRefused, which lists the existing ones."""
    cluster = estate.cluster(name)
    if cluster is None:
        known = ", ".join(spec.name for spec in estate.clusters)
        raise BrokerRefused(f"estate {estate.name} has no cluster {name!r}; these are: {known}")
    return cluster


def next_node(cluster: ClusterSpec, added: Collection[AddedBroker], used: Collection[int] = ()) -> int:
    """Return the lowest free broker number; `used` are reserved numbers that no broker has.

    Raises BrokerRefused if the cluster has the maximum number of brokers.
    """
    if cluster.brokers + len(added) >= MOST_BROKERS:
        raise BrokerRefused(f"{cluster.name} has {MOST_BROKERS} brokers, and a cluster of an estate has no more")
    taken = {*range(1, cluster.brokers + 1), *(broker.node for broker in added), *used}
    return next(node for node in range(1, len(taken) + 2) if node not in taken)


def zone_for(cluster: ClusterSpec, added: Iterable[AddedBroker], wanted: str | None) -> str:
    """Return the wanted zone, or else the one with the fewest brokers; of several, the first in the estate file.

    Raises BrokerRefused for an invalid name of a zone.
    """
    if wanted is None:
        brokers = Counter([*cluster.zones, *(broker.zone for broker in added)])
        return min(brokers, key=lambda zone: brokers[zone])
    if not wanted.strip():
        raise BrokerRefused(
            "the zone's name is empty; without --zone the broker gets the zone with the fewest brokers"
        )
    if not ZONE_NAME.fullmatch(wanted):
        raise BrokerRefused(f"zone {wanted!r} is not a name of up to 100 letters, digits and . _ -")
    return wanted


def removable(cluster: ClusterSpec, added: Collection[AddedBroker], node: int) -> AddedBroker:
    """Return the added broker of this number; raises BrokerRefused for any other."""
    found = next((broker for broker in added if broker.node == node), None)
    if found is not None:
        return found
    if 1 <= node <= cluster.brokers:
        raise BrokerRefused(
            f"broker {node} of {cluster.name} is in the estate file, and so a controller as well: the cluster's "
            "quorum has a fixed list of voters, and one that is gone for ever counts as one that is down. Only "
            "brokers that were added by `treeline estate add-broker` can be taken away"
        )
    known = ", ".join(str(broker.node) for broker in added) or "none"
    raise BrokerRefused(f"{cluster.name} has no broker {node}; those that were added: {known}")
