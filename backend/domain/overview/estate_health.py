"""The health of an estate: its problems in order, and one sentence as the verdict.

A cause is reported, not its consequences: distributors at an offline cluster, or without any worker, are not
problems of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

from backend.domain.base.words import counted
from backend.domain.overview.cluster_problems import cluster_problems, replication_problems, worker_problems
from backend.domain.overview.distributor_problems import distributor_problems
from backend.domain.overview.drift_problems import drift_problems
from backend.domain.overview.estate_facts import EstateFacts
from backend.domain.overview.group_problems import group_problems
from backend.domain.overview.loss_problems import loss_problems
from backend.domain.overview.problems import Health, Problem, judge
from backend.domain.overview.service_problems import service_problems
from backend.domain.overview.switch_problems import switch_problems


def estate_health(facts: EstateFacts) -> Health:
    """Return the verdict on an estate."""
    return judge(_problems(facts), _fine(facts), _counts(facts))


def _problems(facts: EstateFacts) -> Iterator[Problem]:
    yield from loss_problems(facts)
    yield from worker_problems(facts)
    yield from cluster_problems(facts)
    yield from distributor_problems(facts)
    yield from switch_problems(facts.switches, facts.now)
    yield from replication_problems(facts.replication)
    yield from service_problems(facts)
    yield from group_problems(facts.groups)
    yield from drift_problems(facts)


def _fine(facts: EstateFacts) -> str:
    if not facts.clusters:
        return "There are no clusters yet: add two to begin."
    total = len(facts.clusters)
    online = f"{sum(not cluster.is_offline for cluster in facts.clusters):,} of {counted(total, 'cluster')} online"
    if not facts.has_tree:
        return f"{online}; nothing is copied between clusters before there is a tree."
    distributors = counted(len(facts.distributors), "distributor")
    in_time = sum(distributor.in_time is True for distributor in facts.distributors)
    unknown = len(facts.distributors) - in_time
    share = (
        f"{in_time:,} of {distributors} in time, {unknown:,} not known yet"
        if unknown
        else f"{'All ' if in_time > 1 else ''}{distributors} in time"
    )
    return f"{share}, 0 unacknowledged losses, {online}."


def _counts(facts: EstateFacts) -> dict[str, int | None]:
    return {
        "clusters": len(facts.clusters),
        "clusters_online": sum(not cluster.is_offline for cluster in facts.clusters),
        "distributors": len(facts.distributors),
        "distributors_running": sum(distributor.state == "running" for distributor in facts.distributors),
        "distributors_in_time": sum(distributor.in_time is True for distributor in facts.distributors),
        "distributors_late": sum(distributor.in_time is False for distributor in facts.distributors),
        "unacknowledged_losses": sum(fact.count for fact in (*facts.lost, *facts.possibly_lost)),
        "dead_letters": sum(fact.count for fact in facts.dead_letters),
        "groups_with_problems": sum(group.count for group in facts.groups),
        "switches_running": sum(not switch.has_failed for switch in facts.switches),
    }
