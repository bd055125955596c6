"""The health of what the members of one or more tenants see: their groups, streams and switches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from backend.domain.base.words import counted
from backend.domain.overview.estate_facts import StreamFact, TenantFacts
from backend.domain.overview.group_problems import group_problems
from backend.domain.overview.problems import (
    Health,
    Kind,
    Problem,
    Severity,
    WayOut,
    are,
    few_or_all,
    judge,
    listed,
    oldest,
)
from backend.domain.overview.switch_problems import switch_problems

PENDING_AFTER = timedelta(minutes=2)
"""Age of a declaration from which it should have been applied everywhere; workers take some seconds."""


def tenant_health(facts: TenantFacts) -> Health:
    """Return the verdict on what these tenants have."""
    return judge(_problems(facts), _fine(facts), _counts(facts))


def _problems(facts: TenantFacts) -> Iterator[Problem]:
    yield from group_problems(facts.groups)
    yield from switch_problems(facts.switches, facts.now)
    failed = [stream for stream in facts.pending if stream.has_failed]
    waiting = [stream for stream in facts.pending if not stream.has_failed and _is_old(stream, facts.now)]
    fresh = [stream for stream in facts.pending if not stream.has_failed and not _is_old(stream, facts.now)]
    yield from few_or_all(failed, _failed)
    yield from few_or_all(waiting, _waiting)
    yield from few_or_all(fresh, _fresh)


def _fine(facts: TenantFacts) -> str:
    if not facts.streams:
        return "There are no streams yet: declare the first one."
    applied = facts.streams - _not_applied(facts)
    share = f"{applied:,} of " if applied < facts.streams else "All " if applied > 1 else ""
    groups = counted(facts.groups_observed, "consumer group")
    return f"{share}{counted(facts.streams, 'stream')} applied on all clusters, {groups} without problems."


def _counts(facts: TenantFacts) -> dict[str, int | None]:
    return {
        "streams": facts.streams,
        "streams_not_applied": _not_applied(facts),
        "groups": facts.groups_observed,
        "groups_with_problems": sum(group.count for group in facts.groups),
        "switches_running": sum(not switch.has_failed for switch in facts.switches),
    }


def _not_applied(facts: TenantFacts) -> int:
    return len(facts.pending) + facts.more_pending


def _is_old(stream: StreamFact, now: datetime) -> bool:
    return stream.since is not None and now - stream.since > PENDING_AFTER


def _failed(found: Sequence[StreamFact]) -> Problem:
    advice = "Read the reason on the stream's page: change the declaration, or ask an operator about the cluster."
    return _stream("stream-not-applied", Kind.DRIFT, Severity.WARNING, found, "could not be applied", advice)


def _waiting(found: Sequence[StreamFact]) -> Problem:
    advice = "A cluster may be offline: ask an operator, or wait; it is applied once the cluster is back."
    return _stream("stream-pending", Kind.DRIFT, Severity.WARNING, found, "not applied yet", advice, True)


def _fresh(found: Sequence[StreamFact]) -> Problem:
    advice = "Wait some seconds: workers apply it on each cluster."
    return _stream("stream-applying", Kind.INFORMATION, Severity.INFORMATION, found, "being applied", advice, True)


def _stream(
    code: str,
    kind: Kind,
    severity: Severity,
    found: Sequence[StreamFact],
    what: str,
    advice: str,
    is_state: bool = False,
) -> Problem:
    names, first = [stream.stream for stream in found], found[0]
    verb = f"{are(names)} {what}" if is_state else what
    where = f"on {first.clusters - first.applied:,} of {counted(first.clusters, 'cluster')}"
    return Problem(
        code=code,
        kind=kind,
        severity=severity,
        subject=listed(names),
        text=f"{'Stream' if len(names) == 1 else 'Streams'} {listed(names)} {verb} "
        f"{where if len(names) == 1 else 'everywhere'}.",
        advice=advice,
        since=oldest(stream.since for stream in found),
        way_out=WayOut(label="Open stream", address=f"/tenants/{names[0]}")
        if len(names) == 1
        else WayOut(label="Open tenants", address="/tenants"),
    )
