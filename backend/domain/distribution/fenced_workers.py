"""Event stream `fenced-workers`: workers that lost leases while they were alive.

A worker that is stopped (SIGSTOP, a frozen machine) or starved does not renew its leases; they expire, another
worker takes them with higher epochs, and fences the sessions of the first. When the first worker continues, it
notices this, stops its tasks of the old epochs, and records the event here. A worker that dies records nothing.

(none) --RecordFenced--> (none)
"""

from __future__ import annotations

from dataclasses import dataclass

from backend.domain.base.event import Event

EVENT_STREAM = "fenced-workers"

# --- events


@dataclass(frozen=True, kw_only=True)
class WorkerFenced(Event, name="WorkerFenced", version=1):
    """A live worker lost leases to others, and stops the tasks that it ran under them."""

    holder: str
    """The worker, as host:pid."""
    leases: tuple[tuple[str, int, str | None, int], ...]
    """(Lease, epoch that the worker held, current holder or None if the lease is free, current epoch)."""


# --- commands


@dataclass(frozen=True, kw_only=True)
class RecordFenced:
    """Record the leases that a worker has lost."""

    holder: str
    leases: tuple[tuple[str, int, str | None, int], ...]


# --- state


@dataclass(frozen=True, kw_only=True)
class FencedWorkers:
    """Empty state: each loss is recorded once, by the worker itself."""


INITIAL = FencedWorkers()

# --- decide


def decide(state: FencedWorkers, command: RecordFenced) -> list[WorkerFenced]:
    """Return one event for all leases that were lost together."""
    return [WorkerFenced(holder=command.holder, leases=command.leases)] if command.leases else []


# --- evolve


def evolve(state: FencedWorkers, event: Event) -> FencedWorkers:
    """Return the state after an event, which is always the same."""
    return state
