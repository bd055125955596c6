"""Waiting for conditions without a guess about how long they take."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")

GIVE_UP_SECONDS = 180.0  # far beyond any expected duration, however busy the machine: only a failure gets here


def eventually(look: Callable[[], T | None], what: str, every_seconds: float = 0.05) -> T:
    """Return the first true value of `look`; fails the test if there never is one."""
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while not (found := look()):
        if time.monotonic() > deadline:
            pytest.fail(f"never happened: {what}")
        time.sleep(every_seconds)
    return found
