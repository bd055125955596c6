"""Default replicas of a stream's topic on a cluster, for streams that do not declare them.

The cluster's defaults apply, else three replicas with `min.insync.replicas` of two, as far as the brokers allow:
with one replica, a cluster of three brokers would hold every record once, although it could survive the loss of a
broker. The minimum leaves one replica to spare, so that acks=all continues while a broker is down. It follows the
replicas that the topic has (`Replicas.minimum_of`), not the brokers that are up: a broker that is down lowers
nothing.
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
    """The default replicas of a cluster changed, for streams that do not declare them."""

    replication_factor: int | None
    """None, here as in the next field, means automatic: three replicas, two in sync, as far as the brokers
    allow."""
    min_insync_replicas: int | None


@dataclass(frozen=True, kw_only=True)
class ReplicaDefaults:
    """The default replicas that are set on a cluster; None means automatic."""

    replication_factor: int | None = None
    min_insync_replicas: int | None = None

    def shown(self, brokers: int | None) -> Mapping[str, int | None]:
        """Return the effective values for a stream that declares neither; None if the cluster never answered."""
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
    """The replicas that a stream's topic should have on one cluster, given enough brokers."""

    factor: int
    minimum: int
    leaves_one: bool = False
    """True if the minimum leaves one replica to spare, however few there are."""

    def minimum_of(self, factor: int) -> int:
        """Return `min.insync.replicas` for a topic that has this many replicas."""
        return max(1, min(self.minimum, factor - 1 if self.leaves_one else factor))


def replicas_for(factor: int | None, minimum: int | None, defaults: ReplicaDefaults) -> Replicas:
    """Return the replicas of a stream that declares these values, on a cluster with these defaults."""
    wanted = factor or defaults.replication_factor or AUTOMATIC_FACTOR
    if minimum is not None:
        return Replicas(factor=wanted, minimum=minimum)
    if defaults.min_insync_replicas is not None:
        # An operator who set both on the cluster may mean all replicas; with another factor it is only a
        # preference.
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
    """Return the event that sets a cluster's defaults; empty if they are unchanged or None is given.

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
