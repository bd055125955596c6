"""Replicas of a stream's topic on a cluster where the stream does not declare them.

The cluster's defaults count, else three replicas of which two must be in sync, as far as they can be had: with
one, a cluster of three brokers would hold every record once, although it could survive the loss of a broker. The
minimum leaves one replica to spare, so that acks=all goes on while a broker is away. It follows the replicas that
the topic has (`Replicas.minimum_of`) and not the brokers that are there: a broker that is away lowers nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from backend.domain.base.errors import FieldError
from backend.domain.base.event import Event
from backend.domain.base.limits import range_errors, refuse
from backend.domain.topics.stream_settings import MOST_REPLICAS

AUTOMATIC_FACTOR = 3
AUTOMATIC_MINIMUM = 2


@dataclass(frozen=True, kw_only=True)
class ClusterDefaultsSet(Event, name="ClusterDefaultsSet", version=1):
    """Streams that do not declare their replicas have so many on this cluster from now on."""

    replication_factor: int | None
    """None, as the next: automatic, three replicas of which two must be in sync, as far as they can be had."""
    min_insync_replicas: int | None


@dataclass(frozen=True, kw_only=True)
class ReplicaDefaults:
    """What is set on a cluster; None: automatic."""

    replication_factor: int | None = None
    min_insync_replicas: int | None = None

    def shown(self, brokers: int | None) -> Mapping[str, int | None]:
        """Return what a stream that declares neither gets on the cluster now; None while it has never answered."""
        if brokers is None:
            return {
                "replication_factor": self.replication_factor,
                "min_insync_replicas": self.min_insync_replicas,
            }
        wanted = replicas_for(None, None, self)
        factor = min(wanted.factor, max(brokers, 1))
        return {"replication_factor": factor, "min_insync_replicas": wanted.minimum_of(factor)}


@dataclass(frozen=True, kw_only=True)
class Replicas:
    """What a stream's topic should have on one cluster, if it has brokers enough."""

    factor: int
    minimum: int
    leaves_one: bool = False
    """Whether the minimum leaves one replica to spare, however few there are."""

    def minimum_of(self, factor: int) -> int:
        """Return `min.insync.replicas` for a topic that has so many replicas."""
        return max(1, min(self.minimum, factor - 1 if self.leaves_one else factor))


def replicas_for(factor: int | None, minimum: int | None, defaults: ReplicaDefaults) -> Replicas:
    """Return what a stream that declares these gets on a cluster with these defaults."""
    wanted = factor or defaults.replication_factor or AUTOMATIC_FACTOR
    if minimum is not None:
        return Replicas(factor=wanted, minimum=minimum)
    if defaults.min_insync_replicas is not None:
        # Whoever set both on the cluster may mean all replicas; next to another factor it is only a wish.
        return Replicas(factor=wanted, minimum=defaults.min_insync_replicas, leaves_one=factor is not None)
    return Replicas(factor=wanted, minimum=AUTOMATIC_MINIMUM, leaves_one=True)


def check_defaults(defaults: ReplicaDefaults) -> None:
    """Raise ValueInvalid with one error for each default that no topic could have."""
    factor, minimum = defaults.replication_factor, defaults.min_insync_replicas
    errors = range_errors(
        [
            (f"defaults/{name}", value, 1, MOST_REPLICAS)
            for name, value in (("replication_factor", factor), ("min_insync_replicas", minimum))
            if value is not None
        ]
    )
    if not errors and minimum is not None and minimum > (factor or AUTOMATIC_FACTOR):
        most = f"the replication factor {factor or AUTOMATIC_FACTOR}"
        detail = f"{minimum} is more than {most}: nothing could be produced"
        errors.append(FieldError("/defaults/min_insync_replicas", detail))
    refuse(errors)


def defaults_set(present: ReplicaDefaults, wanted: ReplicaDefaults | None) -> list[ClusterDefaultsSet]:
    """Return the event that sets a cluster's defaults; none if they are so already or None is wanted.

    Raises ValueInvalid.
    """
    if wanted is None or wanted == present:
        return []
    check_defaults(wanted)
    return [
        ClusterDefaultsSet(
            replication_factor=wanted.replication_factor, min_insync_replicas=wanted.min_insync_replicas
        )
    ]
