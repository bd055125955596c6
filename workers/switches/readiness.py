"""Whether everything slow is done before clients are told to hold: from then on producers wait for each step.

Two things make a first switch slow. A batch on Spark, of which the first one begins with a JVM that takes both
processors for 15 to 30 s; and connections, logs and code that are used for the first time. Both are waited for
while nobody is held.
"""

from __future__ import annotations

import time

from sqlalchemy import Engine

from backend.queries.switch import switch_progress
from workers import batches
from workers.switches.closing import GroupClosing

_BATCH_SECONDS = 90.0
"""For so long a batch that runs is waited for."""
_WARM_SECONDS = 0.25
"""A walk that takes longer had much to do, or the machine is busy: another one follows."""
_MOST_WALKS = 4
_BATCH = "a batch that runs on Spark"


class Readiness:
    """Of one switch; used by one thread."""

    def __init__(self, engine: Engine, switch: str) -> None:
        self._engine, self._switch = engine, switch
        self._resting_since: float | None = None
        self._walks = 0
        self.beside_a_batch = False
        """Whether clients are held beside a batch, as it did not end in time."""

    def begin_again(self) -> None:
        """The target is far again, or what was opened is closed: batches may run meanwhile."""
        self._resting_since, self._walks = None, 0

    def batches_rest(self, missing_records: int) -> bool:
        """Whether clients that are held will have the machine for themselves; asked until it is so."""
        if self._resting_since is None:
            self._resting_since = time.monotonic()
            told = {"missing_records": missing_records, batches.ABOUT_TO_HOLD: True, "waits_for": _BATCH}
            with self._engine.begin() as connection:
                switch_progress.write(connection, self._switch, told)
        with self._engine.begin() as connection:
            self.beside_a_batch = batches.are_running(connection)
        return not self.beside_a_batch or time.monotonic() > self._resting_since + _BATCH_SECONDS

    def is_warm(self, closing: GroupClosing) -> bool:
        """Walk once more to where groups would go on; whether that was quick.

        The same walk is what clients wait for once they have closed, so it is repeated before they are held as
        long as it finds much to do.
        """
        began = time.monotonic()
        closing.warm_up()
        self._walks += 1
        return time.monotonic() - began < _WARM_SECONDS or self._walks >= _MOST_WALKS
