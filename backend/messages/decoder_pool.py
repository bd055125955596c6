"""Decoder processes that threads take turns in using."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from backend.messages.decoder_process import DecoderProcess, Limits


class NoneFree(Exception):
    """All decoder processes were in use until the deadline."""


class PoolClosed(Exception):
    """The pool was closed."""


class _Waiter:
    """A thread that waits for its turn."""

    def __init__(self) -> None:
        self.called = threading.Event()
        self.process: DecoderProcess | None = None


class DecoderPool:
    """A bounded number of processes; threads get them in the order in which they came."""

    def __init__(self, most: int, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        # The last one is taken first, so that processes beyond the need become idle and end.
        self._free: list[DecoderProcess | None] = [None] * most
        self._waiting: deque[_Waiter] = deque()
        self._is_closed = False

    @contextmanager
    def process(self, deadline: float) -> Iterator[DecoderProcess]:
        """Give the calling thread a process of its own. It is ended if the thread leaves by an exception.

        Raises NoneFree, PoolClosed, StartFailed.
        """
        process = self._take(deadline)
        try:
            if process is None or not process.is_usable:
                _end(process)
                process = DecoderProcess(self._limits)
            yield process
        except BaseException:
            _end(process)
            process = None
            raise
        finally:
            self._give_back(process)

    def close(self) -> None:
        """End the processes that are free, now, and those in use when they are given back."""
        with self._lock:
            self._is_closed = True
            free, self._free = self._free, []
            waiting, self._waiting = self._waiting, deque()
        for process in free:
            _end(process)
        for waiter in waiting:
            waiter.called.set()

    def _take(self, deadline: float) -> DecoderProcess | None:
        with self._lock:
            if self._is_closed:
                raise PoolClosed
            if self._free:
                return self._free.pop()
            waiter = _Waiter()
            self._waiting.append(waiter)
        if not waiter.called.wait(max(0.0, deadline - time.monotonic())):
            with self._lock:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
                    raise NoneFree
        if self._is_closed:
            _end(waiter.process)
            raise PoolClosed
        return waiter.process

    def _give_back(self, process: DecoderProcess | None) -> None:
        with self._lock:
            if self._is_closed:
                _end(process)
            elif self._waiting:
                # Handed over, as the thread that gives it back would otherwise be the first to take it again.
                waiter = self._waiting.popleft()
                waiter.process = process
                waiter.called.set()
            elif process is None:
                self._free.insert(0, None)
            else:
                self._free.append(process)


def _end(process: DecoderProcess | None) -> None:
    if process is not None:
        process.kill()
