"""Ensures that slow work is done before clients are told to hold; from then on producers wait for each step.

Two things make a first switch slow: a Spark batch, the first of which starts a JVM that uses both processors for
15 to 30 s; and the first use of connections, logs and code. The switch waits for both before clients hold.
"""

from __future__ import annotations

import time

from sqlalchemy import Engine

from backend.queries.switch import switch_progress
from workers import batch_exclusion
from workers.switches.closing import GroupClosing

_BATCH_SECONDS = 90.0
"""Longest wait for a running batch."""
_WARM_SECONDS = 0.25
"""Duration of a walk above which another one follows: it had much to do, or the machine is busy."""
_MOST_WALKS = 4
_BATCH = "a running Spark batch"


class Readiness:
    """Readiness of one switch; used by one thread."""

    def __init__(self, engine: Engine, switch: str) -> None:
        self._engine, self._switch = engine, switch
        self._resting_since: float | None = None
        self._walks = 0
        self.beside_a_batch = False
        """True if clients hold while a batch runs, because it did not end in time."""

    def begin_again(self) -> None:
        """Start over: the target has fallen behind, or clients were closed; batches may run meanwhile."""
        self._resting_since, self._walks = None, 0

    def batches_rest(self, missing_records: int) -> bool:
        """Return whether no batch will run beside the hold; called until it is true."""
        if self._resting_since is None:
            self._resting_since = time.monotonic()
            told = {"missing_records": missing_records, batch_exclusion.ABOUT_TO_HOLD: True, "waits_for": _BATCH}
            with self._engine.begin() as connection:
                switch_progress.write(connection, self._switch, told)
        with self._engine.begin() as connection:
            self.beside_a_batch = batch_exclusion.are_running(connection)
        return not self.beside_a_batch or time.monotonic() > self._resting_since + _BATCH_SECONDS

    def is_warm(self, closing: GroupClosing) -> bool:
        """Read once more up to where groups would resume; return whether that was quick.

        Clients wait for the same walk once they have closed, so it is repeated before the hold while it finds much
        to do.
        """
        began = time.monotonic()
        closing.warm_up()
        self._walks += 1
        return time.monotonic() - began < _WARM_SECONDS or self._walks >= _MOST_WALKS
