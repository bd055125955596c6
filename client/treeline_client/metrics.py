"""What a client counts about itself."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """A client's figures at one time; counters only rise while it lives."""

    generation: int
    cluster: str
    phase: str
    """active, settling, held or waiting."""
    switches: int = 0
    """Moves to another generation."""
    aborts: int = 0
    """Holds that ended without a move."""
    promises_run_out: int = 0
    """Holds that ended since the control plane was not heard any more."""
    last_unavailable_ms: float = 0.0
    """The longest that a send waited, or a consumer was closed, in the last hold or move."""
    polls: int = 0
    poll_failures: int = 0
    queued_records: int = 0
    """Records kept back at this time, until the move is done."""
    unknown_outcomes: int = 0
    """Records that were on their way to a cluster given up in an emergency."""
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
        """The figures with all counters in them."""
        return replace(metrics, **vars(self))
