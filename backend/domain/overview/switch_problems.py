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
    for each in found:
        is_stuck = each.is_holding and each.since is not None and now - each.since > STUCK_AFTER
        yield _problem(_FAILED if each.has_failed else _STUCK if is_stuck else _RUNNING, each)


def _who(each: SwitchFact) -> str:
    whose = f" of {listed(each.places)}" if each.places else ""
    name = "The switch" if each.number is None else f"Switch {each.number}"
    return f"{name} of clients{whose} from {each.source} to {each.target}"


def _way_out(each: SwitchFact) -> WayOut:
    if each.places:
        return WayOut(label="Open environment", address=f"/tenants/{each.places[0]}")
    return WayOut(label="Open switch", address=f"/switches/{each.id}")


def _problem(words: _Words, each: SwitchFact) -> Problem:
    reason = None if words is _RUNNING else each.reason
    return Problem(
        code=words.code,
        kind=words.kind,
        severity=words.severity,
        subject=each.id,
        text=f"{_who(each)} {words.what.format(phase=each.phase)}{because(reason)}",
        advice=words.advice,
        since=each.since,
        way_out=_way_out(each),
    )
