"""Run steps in the order of registration, although they become ready in any order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class _Step:
    do: Callable[[], None]
    is_ready: bool = False


class InOrder:
    """Queue of steps that wait for earlier ones."""

    def __init__(self) -> None:
        self._steps: deque[_Step] = deque()

    def next(self, do: Callable[[], None]) -> Callable[[], None]:
        """Register a step; call the returned function when it may run."""
        step = _Step(do)
        self._steps.append(step)

        def ready() -> None:
            step.is_ready = True
            while self._steps and self._steps[0].is_ready:
                self._steps.popleft().do()

        return ready
