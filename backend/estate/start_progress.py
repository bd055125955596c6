"""Tell a starting process that is slow because the machine is busy from one that is stuck.

A fixed time would give up on a busy machine, where a start that takes four seconds of CPU takes minutes. So the
clock of a process runs only while the process had a CPU, or had nothing to do. It stops while its threads queue
for a CPU (schedstat's run delay) or wait for the disk. A process that uses up its patience this way counts as
stuck.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE_SECONDS = 120.0
LEAST_SHARE = 0.05
"""Minimum speed of the clock, so that a stuck process is given up on the busiest machine, too."""


@dataclass
class Patience:
    """The clocks of the starting processes, by name."""

    seconds: float = PATIENCE_SECONDS
    _used: dict[str, float] = field(default_factory=dict)
    _delays: dict[str, float] = field(default_factory=dict)
    _states: dict[str, str] = field(default_factory=dict)
    _looked: float | None = None
    starved_share: float = 0.0
    """Share of the last interval for which the most delayed process waited for a CPU or the disk."""

    def look(self, starting: Mapping[str, int | None], states: Mapping[str, str], now: float) -> None:
        """Advance the clocks to `now` (monotonic seconds).

        `starting` has process ids by name, None between two starts; `states` has the states of all processes.
        Whenever another process becomes ready, all clocks restart: some processes wait for the one that is ready
        now.
        """
        forward = any(
            state in ("running", "done") and self._states.get(name) != state for name, state in states.items()
        )
        self._states = dict(states)
        passed = 0.0 if self._looked is None else now - self._looked
        self._looked, self.starved_share = now, 0.0
        if forward:
            self._used.clear()
        for name, pid in starting.items():
            delay, disk = waited(family(pid)) if pid else (0.0, False)
            queued = passed if disk else max(0.0, delay - self._delays.get(name, delay))
            self._delays[name] = delay
            starved = min(1.0, queued / passed) if passed else 0.0
            self.starved_share = max(self.starved_share, starved)
            self._used[name] = self._used.get(name, 0.0) + passed * max(LEAST_SHARE, 1 - starved)

    def is_over(self, name: str) -> bool:
        """Return whether the process could have been ready long ago."""
        return self._used.get(name, 0.0) > self.seconds


def waited(pids: Iterable[int]) -> tuple[float, bool]:
    """Return the seconds that the processes' threads have queued for a CPU, and whether one waits for the disk.

    On a kernel that does not count them the seconds are 0: then the clock is the wall's.
    """
    nanoseconds, disk = 0, False
    for pid in pids:
        for thread in _threads(pid):
            # The process may end while its file is read.
            with contextlib.suppress(OSError, IndexError, ValueError):
                nanoseconds += int((thread / "schedstat").read_text().split()[1])
                disk = disk or (thread / "stat").read_text().rpartition(")")[2].split()[0] == "D"
    return nanoseconds / 1e9, disk


def family(pid: int) -> list[int]:
    """Return a process and all of its descendants."""
    found, below = [pid], [pid]
    while below:
        parent = below.pop()
        for thread in _threads(parent):
            with contextlib.suppress(OSError):
                children = [int(word) for word in (thread / "children").read_text().split()]
                found += children
                below += children
    return found


def _threads(pid: int) -> list[Path]:
    with contextlib.suppress(OSError):
        return [Path(entry.path) for entry in os.scandir(f"/proc/{pid}/task")]
    return []
