"""The options of a placement request."""

from __future__ import annotations

from dataclasses import dataclass, field

from backend.domain.base.errors import FieldError

HIGHEST_BROKER = 2**31 - 1
MOST_NAMED = 10_000
"""Maximum number of brokers or topics in one option."""
MOST_REPLICAS = 100


@dataclass(frozen=True, kw_only=True)
class Aims:
    """Options of a placement; omitted ones keep the present state."""

    target_brokers: tuple[int, ...] | None = None
    """Brokers that may hold replicas; None for all brokers of the cluster."""
    replication_factor: int | None = None
    """Replication factor of all topics outside `replication_factors`."""
    replication_factors: dict[str, int] = field(default_factory=dict)
    """Replication factor by topic."""
    as_declared: bool = False
    """True if `replication_factors` were resolved from the cluster's streams at the time of the request.

    Factors are limited to the number of brokers.
    """
    excluded_topics: tuple[str, ...] = ()
    no_leaders: tuple[int, ...] = ()


def wrong_aims(aims: Aims) -> list[FieldError]:
    """Return the options that are invalid for any cluster."""
    errors = []
    for name, brokers in (("target_brokers", aims.target_brokers or ()), ("no_leaders", aims.no_leaders)):
        errors += [
            FieldError(f"/{name}/{at}", f"must be a broker's id, not {broker}")
            for at, broker in enumerate(brokers)
            if not 0 <= broker <= HIGHEST_BROKER
        ]
    if aims.target_brokers == ():
        errors.append(FieldError("/target_brokers", "is empty; list the brokers that may hold replicas"))
    factors = dict(aims.replication_factors)
    if aims.replication_factor is not None:
        factors[""] = aims.replication_factor
    errors += [
        FieldError(f"/replication_factor/{topic}".rstrip("/"), f"must be from 1 to {MOST_REPLICAS}, not {factor}")
        for topic, factor in factors.items()
        if not 1 <= factor <= MOST_REPLICAS
    ]
    named = (aims.target_brokers or (), aims.no_leaders, aims.excluded_topics, aims.replication_factors)
    if any(len(each) > MOST_NAMED for each in named):
        errors.append(FieldError("", f"an option lists more than {MOST_NAMED} brokers or topics"))
    return errors
