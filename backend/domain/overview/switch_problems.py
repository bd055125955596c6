"""Problems of switches: stuck and failed ones; and which are in progress."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from backend.domain.overview.estate_facts import SwitchFact
from backend.domain.overview.problems import Kind, Problem, Severity, WayOut, because, listed

STUCK_AFTER = timedelta(minutes=10)
"""Time in one phase, while clients wait, from which a switch counts as stuck."""


def switch_problems(found: Sequence[SwitchFact], now: datetime) -> Iterator[Problem]:
    """Yield the problems of switches, and the information that one is in progress."""
    for each in found:
        is_stuck = each.is_holding and each.since is not None and now - each.since > STUCK_AFTER
        yield _failed(each) if each.has_failed else _stuck(each) if is_stuck else _running(each)


def _who(each: SwitchFact) -> str:
    whose = f" of {listed(each.places)}" if each.places else ""
    name = "The switch" if each.number is None else f"Switch {each.number}"
    return f"{name} of clients{whose} from {each.source} to {each.target}"


def _way_out(each: SwitchFact) -> WayOut:
    if each.places:
        return WayOut(label="Open environment", address=f"/tenants/{each.places[0]}")
    return WayOut(label="Open switch", address=f"/switches/{each.id}")


def _failed(each: SwitchFact) -> Problem:
    return Problem(
        code="switch-failed",
        kind=Kind.DRIFT,
        severity=Severity.WARNING,
        subject=each.id,
        text=f"{_who(each)} failed{because(each.reason)}",
        advice="The clients stay where they were: remove the cause, then plan the switch again.",
        since=each.since,
        way_out=_way_out(each),
    )


def _stuck(each: SwitchFact) -> Problem:
    return Problem(
        code="switch-stuck",
        kind=Kind.AVAILABILITY,
        severity=Severity.CRITICAL,
        subject=each.id,
        text=f"{_who(each)} is stuck in the phase {each.phase}: the clients wait{because(each.reason)}",
        advice="See what it waits for: continue without clients that do not respond, or abort the switch.",
        since=each.since,
        way_out=_way_out(each),
    )


def _running(each: SwitchFact) -> Problem:
    return Problem(
        code="switch-running",
        kind=Kind.INFORMATION,
        severity=Severity.INFORMATION,
        subject=each.id,
        text=f"{_who(each)} is in progress: {each.phase}.",
        advice="Watch its progress, or abort it before the clients move.",
        since=each.since,
        way_out=_way_out(each),
    )
