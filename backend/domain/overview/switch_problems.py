"""Problems of switches: stuck and failed ones; and which are in progress."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from backend.domain.overview.estate_facts import SwitchFact
from backend.domain.overview.problems import Kind, Problem, Severity, WayOut, because, listed

STUCK_AFTER = timedelta(minutes=10)
"""Time in one phase, while clients wait, from which a switch counts as stuck."""


@dataclass(frozen=True, kw_only=True)
class _Words:
    code: str
    kind: Kind
    severity: Severity
    what: str
    """Verb and its object, with a place for the phase."""
    advice: str


_FAILED = _Words(
    code="switch-failed",
    kind=Kind.DRIFT,
    severity=Severity.WARNING,
    what="failed",
    advice="The clients stay where they were: remove the cause, then plan the switch again.",
)
_STUCK = _Words(
    code="switch-stuck",
    kind=Kind.AVAILABILITY,
    severity=Severity.CRITICAL,
    what="is stuck in the phase {phase}: the clients wait",
    advice="See what it waits for: continue without clients that do not respond, or abort the switch.",
)
_RUNNING = _Words(
    code="switch-running",
    kind=Kind.INFORMATION,
    severity=Severity.INFORMATION,
    what="is in progress: {phase}",
    advice="Watch its progress, or abort it before the clients move.",
)


def switch_problems(found: Sequence[SwitchFact], now: datetime) -> Iterator[Problem]:
    """Yield the problems of switches, and the information that one is in progress."""
    for switch in found:
        is_stuck = switch.is_holding and switch.since is not None and now - switch.since > STUCK_AFTER
        yield _problem(_FAILED if switch.has_failed else _STUCK if is_stuck else _RUNNING, switch)


def _who(switch: SwitchFact) -> str:
    whose = f" of {listed(switch.places)}" if switch.places else ""
    name = "The switch" if switch.number is None else f"Switch {switch.number}"
    return f"{name} of clients{whose} from {switch.source} to {switch.target}"


def _way_out(switch: SwitchFact) -> WayOut:
    if switch.places:
        return WayOut(label="Open environment", address=f"/tenants/{switch.places[0]}")
    return WayOut(label="Open switch", address=f"/switches/{switch.id}")


def _problem(words: _Words, switch: SwitchFact) -> Problem:
    reason = None if words is _RUNNING else switch.reason
    return Problem(
        code=words.code,
        kind=words.kind,
        severity=words.severity,
        subject=switch.id,
        text=f"{_who(switch)} {words.what.format(phase=switch.phase)}{because(reason)}",
        advice=words.advice,
        since=switch.since,
        way_out=_way_out(switch),
    )
