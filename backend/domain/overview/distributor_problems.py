"""Problems of distributors: blocked, degraded and late ones; and which are paused or starting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from backend.domain.overview.cluster_problems import copying_is_silent
from backend.domain.overview.estate_facts import DistributorFact, EstateFacts
from backend.domain.overview.problems import (
    Kind,
    Problem,
    Severity,
    WayOut,
    address,
    are,
    because,
    few_or_all,
    listed,
    oldest,
)

_TREE = WayOut(label="Open tree", address="/tree")


@dataclass(frozen=True, kw_only=True)
class _Words:
    code: str
    kind: Kind
    severity: Severity
    what: str
    advice: str


_BLOCKED = _Words(
    code="distributor-blocked",
    kind=Kind.AVAILABILITY,
    severity=Severity.CRITICAL,
    what="blocked",
    advice="Remove the cause: records wait at the source meanwhile, and are lost once its retention has passed.",
)
_DEGRADED = _Words(
    code="distributor-degraded",
    kind=Kind.LATENESS,
    severity=Severity.WARNING,
    what="degraded",
    advice="Remove the cause: some of its streams are not copied.",
)
_LATE = _Words(
    code="distributor-late",
    kind=Kind.LATENESS,
    severity=Severity.WARNING,
    what="late: records wait longer than the objective",
    advice="See the history of its lag and rate: add workers if all are busy, raise its limit if it has one, "
    "or check the link to the target.",
)
_STOPPED = _Words(
    code="distributor-stopped",
    kind=Kind.AVAILABILITY,
    severity=Severity.WARNING,
    what="stopped",
    advice="It resumes once a worker takes its tasks: check that workers have free capacity.",
)
_PAUSED = _Words(
    code="distributor-paused",
    kind=Kind.INFORMATION,
    severity=Severity.INFORMATION,
    what="paused by an operator",
    advice="Resume it before the source's retention passes: its records wait.",
)
_STARTING = _Words(
    code="distributor-starting",
    kind=Kind.INFORMATION,
    severity=Severity.INFORMATION,
    what="starting",
    advice="No action is needed unless this lasts.",
)
_WAITING = _Words(
    code="distributor-waiting",
    kind=Kind.AVAILABILITY,
    severity=Severity.WARNING,
    what="waiting for a worker",
    advice="Start more workers with the queue treeline.shifts, or read the logs of those that run: the records of "
    "tasks without a worker wait at the source.",
)
WAITING_AFTER = timedelta(minutes=2)
"""Time from which a task that no worker has taken is a problem; free workers take tasks within seconds."""
_STATES = {
    "blocked": _BLOCKED,
    "degraded": _DEGRADED,
    "stopped": _STOPPED,
    "paused": _PAUSED,
    "pausing": _PAUSED,
    "starting": _STARTING,
}


def distributor_problems(facts: EstateFacts) -> Iterator[Problem]:
    """Yield the problems of distributors, apart from what other problems explain."""
    if copying_is_silent(facts):
        return
    away = {cluster.name for cluster in facts.clusters if cluster.is_offline}
    own = [
        distributor for distributor in facts.distributors if not away & {distributor.cluster, distributor.target}
    ]
    unexplained = [distributor for distributor in own if not distributor.is_explained_elsewhere]
    for words in (_WAITING, *dict.fromkeys(_STATES.values())):
        found = [distributor for distributor in unexplained if _words(distributor, facts.now) is words]
        yield from few_or_all(found, partial(_problem, words))
    late = [
        distributor
        for distributor in own
        if distributor.in_time is False and distributor.state in ("running", "degraded")
    ]
    yield from few_or_all(late, partial(_problem, _LATE))


def _words(distributor: DistributorFact, now: datetime) -> _Words | None:
    words, since = _STATES.get(distributor.state), distributor.waiting_since
    return _WAITING if words is _STARTING and since is not None and now - since > WAITING_AFTER else words


def _problem(words: _Words, found: Sequence[DistributorFact]) -> Problem:
    names = [f"{distributor.cluster} level {distributor.level}" for distributor in found]
    first, one = found[0], len(found) == 1
    shown = f"{names[0]} to {first.target}" if one else listed(names)
    noun = "Distributor" if one else f"{len(found):,} distributors,"
    reason = first.reason if one and words not in (_LATE, _PAUSED) else None
    return Problem(
        code=words.code,
        kind=words.kind,
        severity=words.severity,
        subject=listed(names),
        text=f"{noun} {shown}{'' if one else ','} {are(names)} {words.what}{because(reason)}",
        advice=words.advice,
        since=oldest(distributor.waiting_since for distributor in found) if words is _WAITING else None,
        way_out=_way_out(words, found),
    )


def _way_out(words: _Words, found: Sequence[DistributorFact]) -> WayOut:
    first = found[0]
    if words is _LATE:
        subject = {"subject": f"{first.cluster}:{first.level}"} if len(found) == 1 else {}
        return WayOut(label="Open lag chart", address=address("/charts", metric="edge.lag_records", **subject))
    if words is _PAUSED and len(found) == 1:
        place = f"/tree/-settings/{first.cluster}/{first.level}"
        return WayOut(label="Resume distributor", address=place)
    return _TREE
