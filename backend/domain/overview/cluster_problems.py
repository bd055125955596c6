"""Problems of clusters: offline ones, their replication, and workers that do not report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from backend.domain.base.words import counted
from backend.domain.overview.estate_facts import ClusterFact, EstateFacts, ReplicationFact
from backend.domain.overview.problems import (
    Kind,
    Problem,
    Severity,
    WayOut,
    are,
    because,
    few_or_all,
    listed,
    oldest,
)

SILENT_AFTER = timedelta(minutes=1)
"""Age of the newest report from which workers of a kind count as absent: each reports every few seconds."""
_START = "(on the local estate by treeline up, else Celery's); read its log."
_REPLICATION = {
    "partition-without-leader": (Severity.CRITICAL, "partition", "without a leader"),
    "under-min-isr": (Severity.CRITICAL, "partition", "below min.insync.replicas"),
    "broker-away": (Severity.WARNING, "broker", "offline"),
    "under-replicated": (Severity.WARNING, "partition", "under-replicated"),
}
"""Alerts of a cluster's replication that are problems of the estate, the gravest first."""


def copying_is_silent(facts: EstateFacts) -> bool:
    """Return whether no worker that copies reports although there are clusters."""
    return _is_silent(facts, facts.workers.copied_at)


def worker_problems(facts: EstateFacts) -> Iterator[Problem]:
    """Yield the problem of absent workers, without whom nothing is copied, or nothing below is known."""
    copied, controlled = facts.workers.copied_at, facts.workers.controlled_at
    tree, clusters = WayOut(label="Open tree", address="/tree"), WayOut(label="Open clusters", address="/clusters")
    is_copying, is_controlling = not _is_silent(facts, copied), not _is_silent(facts, controlled)
    if not is_copying and not is_controlling:
        text = (
            "No worker reports: nothing is copied, and the states of clusters and groups are old."
            if copied or controlled
            else "No worker has reported yet: nothing is copied, and nothing is known about clusters and groups."
        )
        advice = "Start the workers (on the local estate by treeline up, else Celery's); read their logs."
        last = max((report for report in (copied, controlled) if report), default=None)
        yield _absent("workers-silent", "Workers", text, advice, last, tree)
    elif not is_copying:
        text = f"No worker with the queue treeline.shifts {_reports(copied)}: nothing is copied."
        yield _absent("copying-silent", "treeline.shifts", text, f"Start one {_START}", copied, tree)
    elif not is_controlling:
        text = (
            f"No worker with the queue treeline.control {_reports(controlled)}: changes are not applied, and the "
            "states of clusters and groups are old."
        )
        yield _absent("control-silent", "treeline.control", text, f"Start one {_START}", controlled, clusters)


def _is_silent(facts: EstateFacts, last: datetime | None) -> bool:
    return bool(facts.clusters) and (last is None or facts.now - last > SILENT_AFTER)


def _reports(last: datetime | None) -> str:
    return "has reported yet" if last is None else "reports"


def _absent(code: str, subject: str, text: str, advice: str, since: datetime | None, way_out: WayOut) -> Problem:
    return Problem(
        code=code,
        kind=Kind.AVAILABILITY,
        severity=Severity.CRITICAL,
        subject=subject,
        text=text,
        advice=advice,
        since=since,
        way_out=way_out,
    )


def cluster_problems(facts: EstateFacts) -> Iterator[Problem]:
    """Yield the problems of offline clusters."""
    yield from few_or_all([cluster for cluster in facts.clusters if cluster.is_offline], _offline)


def _offline(found: Sequence[ClusterFact]) -> Problem:
    names = [cluster.name for cluster in found]
    one = len(found) == 1
    return Problem(
        code="cluster-offline",
        kind=Kind.AVAILABILITY,
        severity=Severity.CRITICAL,
        subject=listed(names),
        text=f"{listed(names)} {are(names)} offline{because(found[0].reason if one else None)}",
        advice="Start the brokers or mend the network; records wait on the other clusters and follow afterwards. "
        "To move the clients meanwhile, plan an emergency switch.",
        since=oldest(cluster.since for cluster in found),
        way_out=WayOut(label=f"Open {names[0]}", address=f"/clusters/{names[0]}")
        if one
        else WayOut(label="Open clusters", address="/clusters"),
    )


def replication_problems(found: Sequence[ReplicationFact]) -> Iterator[Problem]:
    """Yield the gravest alert of each cluster's replication, if it is one of the estate."""
    order = list(_REPLICATION)
    gravest: dict[str, ReplicationFact] = {}
    for fact in sorted((fact for fact in found if fact.alert in order), key=lambda fact: order.index(fact.alert)):
        gravest.setdefault(fact.cluster, fact)
    for alert in order:
        yield from few_or_all([fact for fact in gravest.values() if fact.alert == alert], _replication)


def _replication(found: Sequence[ReplicationFact]) -> Problem:
    first, names = found[0], [fact.cluster for fact in found]
    severity, noun, what = _REPLICATION[first.alert]
    total, advices = sum(fact.count for fact in found), {fact.what_to_do for fact in found}
    such_as = (
        f", such as {first.examples[0]}" if len(found) == 1 and first.examples and noun == "partition" else ""
    )
    return Problem(
        code=first.alert,
        kind=Kind.AVAILABILITY,
        severity=severity,
        subject=listed(names),
        text=f"{counted(total, noun)} of {listed(names)} {'is' if total == 1 else 'are'} {what}{such_as}.",
        advice=advices.pop()
        if len(advices) == 1
        else "Open the replication of each cluster, which says what to do.",
        way_out=WayOut(label="Open replication", address=f"/clusters/{first.cluster}/replication")
        if len(found) == 1
        else WayOut(label="Open clusters", address="/clusters"),
    )
