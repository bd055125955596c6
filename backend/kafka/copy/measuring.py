"""Measures of a task for each of its streams: copied records, latency, and what waits.

Only committed records count: those of an aborted transaction are copied again. The record loops add what they
produce (`Copies`, of a partition since its last commit); the session reports the commit. The task's thread
measures while another thread takes the changes, hence the lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from backend.domain.distribution.wait_times import Place, WaitTimes

_LAGS_SECONDS = 5.0
"""Interval in which lags alone are reported: they change all the time, and are many."""


class Copies:
    """Copies of one partition since its last commit; times are record timestamps, in ms since 1970."""

    __slots__ = ("newest_ms", "oldest_ms", "position", "records", "size")

    def __init__(self, position: int | None = None) -> None:
        self.position = position
        """Position in the source's log at the last commit."""
        self.clear()

    def clear(self) -> None:
        """Reset the counts."""
        self.records = self.size = self.newest_ms = 0
        self.oldest_ms: int | None = None

    def add(self, records: int, size: int, oldest_ms: int, newest_ms: int) -> None:
        """Add produced records and their bytes; a timestamp that is not above 0 means that there is none.

        The newest time also counts records that need no copy: without them it would stall where all records are
        skipped, as intended.
        """
        self.records += records
        self.size += size
        self.newest_ms = max(self.newest_ms, newest_ms)
        if oldest_ms > 0:
            self.oldest_ms = oldest_ms if self.oldest_ms is None else min(self.oldest_ms, oldest_ms)


@dataclass
class StreamMeasure:
    """Measures of one stream by one task, since its thread started."""

    stream: str
    records: int = 0
    size: int = 0
    """Bytes of keys, values and headers."""
    passed: int = 0
    """Offsets of the source's log that were passed: copied, skipped, or without a record."""
    lag_records: int | None = None
    newest_ms: int | None = None
    """Highest timestamp of a record that was copied, or needs no copy."""
    copied_ms: int | None = None
    """Time of the last commit with records."""
    latency_ms: int | None = None
    """Latency of that commit, from the timestamp of its oldest record; 0 for the future, None without
    timestamps."""
    checkpoint_ms: int | None = None
    """When a checkpoint of one of its partitions was last stored; before the first one, when it was taken."""


class Measures:
    """Measures of one task, across its sessions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: dict[str, StreamMeasure] = {}
        self._changed: set[str] = set()
        self._lags_changed: set[str] = set()
        self._lags_reported_at = -_LAGS_SECONDS
        self._wait_times = WaitTimes()
        self.wait_seconds: float | None = None
        """Seconds that records wait; None while that of a partition is unknown. See `WaitTimes`."""

    def committed(self, stream: str, copies: Copies, position: int | None) -> None:
        """Count the copies of one partition as committed at this position."""
        passed = max(0, (position or 0) - (copies.position if copies.position is not None else position or 0))
        copies.position = position
        if not copies.records and not passed:
            return
        now_ms = _now_ms()
        with self._lock:
            measure = self._of(stream)
            measure.records += copies.records
            measure.size += copies.size
            measure.passed += passed
            if copies.newest_ms > 0:
                measure.newest_ms = max(measure.newest_ms or 0, copies.newest_ms)
            if copies.records:
                measure.copied_ms = now_ms
                measure.latency_ms = None if copies.oldest_ms is None else max(0, now_ms - copies.oldest_ms)
        copies.clear()

    def checkpoint_taken(self, stream: str) -> None:
        """Note that a checkpoint of a partition was taken: storing it is timed from the first one on."""
        with self._lock:
            if (measure := self._of(stream)).checkpoint_ms is None:
                measure.checkpoint_ms = _now_ms()

    def checkpointed(self, streams: Iterable[str]) -> None:
        """Note that checkpoints of these streams were stored."""
        with self._lock:
            for stream in streams:
                self._of(stream).checkpoint_ms = _now_ms()

    def lags(self, lags: Iterable[tuple[str, Place, int | None, int]]) -> int | None:
        """Note each partition's lag (stream, place, lag, end); return the total, None while one is unknown."""
        of: dict[str, int | None] = {}
        behind: list[tuple[Place, int | None, int]] = []
        for stream, place, lag, end in lags:
            before = of.get(stream, 0)
            of[stream] = None if before is None or lag is None else before + lag
            if lag != 0:
                behind.append((place, lag, end))
        waits = self._wait_times.observe(time.monotonic(), behind)
        self.wait_seconds = None if None in of.values() else waits
        with self._lock:
            for stream, lag in of.items():
                if stream not in self._streams or self._streams[stream].lag_records != lag:
                    self._streams.setdefault(stream, StreamMeasure(stream)).lag_records = lag
                    self._lags_changed.add(stream)
        known = [lag for lag in of.values() if lag is not None]
        return sum(known) if len(known) == len(of) else None

    def take_changed(self) -> list[StreamMeasure]:
        """Return the measures that changed since the last call; those with a changed lag only, less often."""
        with self._lock:
            changed, self._changed = self._changed, set()
            if time.monotonic() - self._lags_reported_at >= _LAGS_SECONDS:
                self._lags_reported_at = time.monotonic()
                changed |= self._lags_changed
                self._lags_changed = set()
            return [replace(self._streams[stream]) for stream in sorted(changed)]

    def _of(self, stream: str) -> StreamMeasure:
        """Return a stream's measure to change it."""
        self._changed.add(stream)
        return self._streams.setdefault(stream, StreamMeasure(stream))


def _now_ms() -> int:
    return int(time.time() * 1000)
