"""What a unit measures of each of its streams: how much was copied, how long it took, what waits.

Only what was committed counts: an aborted transaction's records are copied again. The record loops note what
they hand over (`Copies`, of a partition since its last commit); the session says when that is committed. The
unit's thread measures while another one takes what is new, hence the lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from backend.domain.distribution.waits import Place, Waits

_LAGS_SECONDS = 5.0
"""Lags alone change all the time, and are many: they are told so often."""


class Copies:
    """Of one partition since its last commit; times are those that records carry, in ms since 1970."""

    __slots__ = ("newest_ms", "oldest_ms", "position", "records", "size")

    def __init__(self, position: int | None = None) -> None:
        self.position = position
        """In the source's log, at the last commit."""
        self.clear()

    def clear(self) -> None:
        """Nothing is under way."""
        self.records = self.size = self.newest_ms = 0
        self.oldest_ms: int | None = None

    def add(self, records: int, size: int, oldest_ms: int, newest_ms: int) -> None:
        """Records that were handed over, and their bytes; a record without a time has one that is not above 0.

        The newest time is also that of records that need no copy: without them it would stand still where all is
        skipped, as it should be.
        """
        self.records += records
        self.size += size
        self.newest_ms = max(self.newest_ms, newest_ms)
        if oldest_ms > 0:
            self.oldest_ms = oldest_ms if self.oldest_ms is None else min(self.oldest_ms, oldest_ms)


@dataclass
class StreamMeasure:
    """Of one stream by one unit, since its thread began."""

    stream: str
    records: int = 0
    size: int = 0
    """Bytes of keys, values and headers."""
    passed: int = 0
    """Offsets of the source's log, whatever was there: copied, skipped, or no record at all."""
    lag_records: int | None = None
    newest_ms: int | None = None
    """The highest time of a record that was copied, or needs no copy."""
    copied_ms: int | None = None
    """When records were committed last."""
    latency_ms: int | None = None
    """Of that commit: from the time of its oldest record on; 0 for records of the future, None if none has one."""
    checkpoint_ms: int | None = None
    """When a checkpoint of one of its partitions was written down last; before the first, when it was taken."""


class Measures:
    """One unit's, whatever sessions it has."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: dict[str, StreamMeasure] = {}
        self._changed: set[str] = set()
        self._lags_changed: set[str] = set()
        self._lags_told_at = -_LAGS_SECONDS
        self._waits = Waits()
        self.wait_seconds: float | None = None
        """For how long records wait; None while that of a partition is not known. See `Waits`."""

    def committed(self, stream: str, copies: Copies, position: int | None) -> None:
        """What was handed over of one partition is on the target, which has this position now."""
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
        """A checkpoint of a partition is to be written down: how long that takes counts from the first one on."""
        with self._lock:
            if (measure := self._of(stream)).checkpoint_ms is None:
                measure.checkpoint_ms = _now_ms()

    def checkpointed(self, streams: Iterable[str]) -> None:
        """Checkpoints of their partitions were written down."""
        with self._lock:
            for stream in streams:
                self._of(stream).checkpoint_ms = _now_ms()

    def lags(self, lags: Iterable[tuple[str, Place, int | None, int]]) -> int | None:
        """Note the lag of each partition: its stream, lag and end. That of all, None while one is not known."""
        of: dict[str, int | None] = {}
        behind: list[tuple[Place, int | None, int]] = []
        for stream, place, lag, end in lags:
            before = of.get(stream, 0)
            of[stream] = None if before is None or lag is None else before + lag
            if lag != 0:
                behind.append((place, lag, end))
        waits = self._waits.look(time.monotonic(), behind)
        self.wait_seconds = None if None in of.values() else waits
        with self._lock:
            for stream, lag in of.items():
                if stream not in self._streams or self._streams[stream].lag_records != lag:
                    self._streams.setdefault(stream, StreamMeasure(stream)).lag_records = lag
                    self._lags_changed.add(stream)
        known = [lag for lag in of.values() if lag is not None]
        return sum(known) if len(known) == len(of) else None

    def take_changed(self) -> list[StreamMeasure]:
        """Those of which something is new since the last call; where it is the lag alone, every few seconds."""
        with self._lock:
            changed, self._changed = self._changed, set()
            if time.monotonic() - self._lags_told_at >= _LAGS_SECONDS:
                self._lags_told_at = time.monotonic()
                changed |= self._lags_changed
                self._lags_changed = set()
            return [replace(self._streams[stream]) for stream in sorted(changed)]

    def _of(self, stream: str) -> StreamMeasure:
        """To be changed."""
        self._changed.add(stream)
        return self._streams.setdefault(stream, StreamMeasure(stream))


def _now_ms() -> int:
    return int(time.time() * 1000)
