"""What may come to be done in any order, done in the order in which it was begun."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class _Step:
    do: Callable[[], None]
    is_ready: bool = False


class InOrder:
    """Steps that wait for those before them."""

    def __init__(self) -> None:
        self._steps: deque[_Step] = deque()

    def next(self, do: Callable[[], None]) -> Callable[[], None]:
        """One more step; what is given back says that it may be done, now or later."""
        step = _Step(do)
        self._steps.append(step)

        def ready() -> None:
            step.is_ready = True
            while self._steps and self._steps[0].is_ready:
                self._steps.popleft().do()

        return ready
