"""What a placement is wished to be like."""

from __future__ import annotations

from dataclasses import dataclass, field

from backend.domain.base.errors import FieldError

HIGHEST_BROKER = 2**31 - 1
MOST_NAMED = 10_000
"""Brokers or topics that a wish names."""
MOST_REPLICAS = 100


@dataclass(frozen=True, kw_only=True)
class Aims:
    """What is wished for; what is left out stays as it is."""

    target_brokers: tuple[int, ...] | None = None
    """Those that are to hold replicas; None: all that the cluster has."""
    replication_factor: int | None = None
    """Of all topics but those of `replication_factors`."""
    replication_factors: dict[str, int] = field(default_factory=dict)
    """By topic."""
    as_declared: bool = False
    """`replication_factors` are those that the cluster's streams declared when this was asked for, as far as there
    were brokers for them."""
    excluded_topics: tuple[str, ...] = ()
    no_leaders: tuple[int, ...] = ()


def wrong_aims(aims: Aims) -> list[FieldError]:
    """What cannot be meant, whatever the cluster is like."""
    errors = []
    for name, brokers in (("target_brokers", aims.target_brokers or ()), ("no_leaders", aims.no_leaders)):
        errors += [
            FieldError(f"/{name}/{at}", f"is to be a broker's id, and is {broker}")
            for at, broker in enumerate(brokers)
            if not 0 <= broker <= HIGHEST_BROKER
        ]
    if aims.target_brokers == ():
        errors.append(FieldError("/target_brokers", "names no broker; name those that are to hold replicas"))
    factors = dict(aims.replication_factors)
    if aims.replication_factor is not None:
        factors[""] = aims.replication_factor
    errors += [
        FieldError(f"/replication_factor/{topic}".rstrip("/"), f"is to be 1 to {MOST_REPLICAS}, and is {factor}")
        for topic, factor in factors.items()
        if not 1 <= factor <= MOST_REPLICAS
    ]
    named = (aims.target_brokers or (), aims.no_leaders, aims.excluded_topics, aims.replication_factors)
    if any(len(each) > MOST_NAMED for each in named):
        errors.append(FieldError("", f"more than {MOST_NAMED} brokers or topics are named"))
    return errors
