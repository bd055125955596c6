"""Waiting for what must become true, without a guess about how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")

GIVE_UP_SECONDS = 180.0  # far beyond what any of it takes, however busy the machine: only a broken thing gets here


def eventually(look: Callable[[], T | None], what: str, every_seconds: float = 0.05) -> T:
    """The first true value of `look`; fails the test if there never is one."""
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while not (found := look()):
        if time.monotonic() > deadline:
            pytest.fail(f"never happened: {what}")
        time.sleep(every_seconds)
    return found
