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
    for switch in found:
        is_stuck = switch.is_holding and switch.since is not None and now - switch.since > STUCK_AFTER
        yield _failed(switch) if switch.has_failed else _stuck(switch) if is_stuck else _running(switch)


def _who(switch: SwitchFact) -> str:
    whose = f" of {listed(switch.places)}" if switch.places else ""
    name = "The switch" if switch.number is None else f"Switch {switch.number}"
    return f"{name} of clients{whose} from {switch.source} to {switch.target}"


def _way_out(switch: SwitchFact) -> WayOut:
    if switch.places:
        return WayOut(label="Open environment", address=f"/tenants/{switch.places[0]}")
    return WayOut(label="Open switch", address=f"/switches/{switch.id}")


def _failed(switch: SwitchFact) -> Problem:
    return Problem(
        code="switch-failed",
        kind=Kind.DRIFT,
        severity=Severity.WARNING,
        subject=switch.id,
        text=f"{_who(switch)} failed{because(switch.reason)}",
        advice="The clients stay where they were: remove the cause, then plan the switch again.",
        since=switch.since,
        way_out=_way_out(switch),
    )


def _stuck(switch: SwitchFact) -> Problem:
    return Problem(
        code="switch-stuck",
        kind=Kind.AVAILABILITY,
        severity=Severity.CRITICAL,
        subject=switch.id,
        text=f"{_who(switch)} is stuck in the phase {switch.phase}: the clients wait{because(switch.reason)}",
        advice="See what it waits for: continue without clients that do not respond, or abort the switch.",
        since=switch.since,
        way_out=_way_out(switch),
    )


def _running(switch: SwitchFact) -> Problem:
    return Problem(
        code="switch-running",
        kind=Kind.INFORMATION,
        severity=Severity.INFORMATION,
        subject=switch.id,
        text=f"{_who(switch)} is in progress: {switch.phase}.",
        advice="Watch its progress, or abort it before the clients move.",
        since=switch.since,
        way_out=_way_out(switch),
    )
