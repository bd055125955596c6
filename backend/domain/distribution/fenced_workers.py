"""Event stream `fenced-workers`: workers that lost leases while they were alive.

A worker that is stopped (SIGSTOP, a frozen machine) or starved does not renew its leases; they expire, another
worker takes them with higher epochs, and fences the sessions of the first. When it goes on it finds that out,
stops what it runs under the old epochs, and records it here. A worker that dies records nothing.

(none) --RecordFenced--> (none)
"""

from __future__ import annotations

from dataclasses import dataclass

from backend.domain.base.event import Event

EVENT_STREAM = "fenced-workers"

# --- events


@dataclass(frozen=True, kw_only=True)
class WorkerFenced(Event, name="WorkerFenced", version=1):
    """A worker that is alive lost leases to others, and stops what it ran under them."""

    holder: str
    """The worker, as host:pid."""
    leases: tuple[tuple[str, int, str | None, int], ...]
    """(lease, epoch that the worker had, who has it now or None if it is free, epoch by now)."""


# --- commands


@dataclass(frozen=True, kw_only=True)
class RecordFenced:
    """Record the leases that a worker has lost."""

    holder: str
    leases: tuple[tuple[str, int, str | None, int], ...]


# --- state


@dataclass(frozen=True, kw_only=True)
class FencedWorkers:
    """Nothing has to be remembered: each loss is recorded once, by the worker itself."""


INITIAL = FencedWorkers()

# --- decide


def decide(state: FencedWorkers, command: RecordFenced) -> list[WorkerFenced]:
    """One event for all that was lost together."""
    return [WorkerFenced(holder=command.holder, leases=command.leases)] if command.leases else []


# --- evolve


def evolve(state: FencedWorkers, event: Event) -> FencedWorkers:
    """The state after an event: always the same."""
    return state
