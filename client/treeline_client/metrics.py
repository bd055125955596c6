"""Metrics that a client keeps about itself."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """Metrics of a client at one time; counters only rise while the client lives."""

    generation: int
    cluster: str
    phase: str
    """One of active, settling, held, waiting."""
    switches: int = 0
    """Number of moves to another generation."""
    aborts: int = 0
    """Number of holds that ended without a move."""
    promises_run_out: int = 0
    """Number of holds that ended because the control plane did not answer any more."""
    last_unavailable_ms: float = 0.0
    """Longest time that a send waited, or a consumer was closed, in the last hold or move."""
    polls: int = 0
    poll_failures: int = 0
    queued_records: int = 0
    """Number of records that wait for the end of the move."""
    unknown_outcomes: int = 0
    """Number of records that were in flight to a cluster given up in an emergency."""
    stale_commits_refused: int = 0


class Counters:
    """The counters behind `Metrics`; each is written by one thread or under its owner's lock."""

    def __init__(self) -> None:
        self.switches = 0
        self.aborts = 0
        self.promises_run_out = 0
        self.last_unavailable_ms = 0.0
        self.polls = 0
        self.poll_failures = 0
        self.unknown_outcomes = 0
        self.stale_commits_refused = 0

    def onto(self, metrics: Metrics) -> Metrics:
        """Return the metrics with all counters filled in."""
        return replace(metrics, **vars(self))
