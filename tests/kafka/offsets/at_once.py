"""Tests that wait most of the time, each for its own condition: they run side by side."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import pytest

from tests.support.estate.groups import Made

Case = Callable[[Made], None]
_CASE = "case_at_once"


def at_once(case: Case) -> Callable[[Callable[[Case], Future[None]]], None]:
    """Make a test of a case: it runs in a thread beside the module's other cases, and each fails on its own.

    The first one starts all cases of this session; each waits for its own.
    """

    @functools.wraps(case, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    def test(started: Callable[[Case], Future[None]]) -> None:
        started(case).result()

    del test.__wrapped__  # type: ignore[attr-defined]  # pytest would ask for the case's own arguments
    setattr(test, _CASE, case)
    return test


def cases_of(items: Sequence[pytest.Item], module: str) -> list[Case]:
    """Return the cases among a session's tests that are in a module."""
    found = (getattr(getattr(item, "function", None), _CASE, None) for item in items if _in(item, module))
    return [case for case in found if case is not None]


def _in(item: pytest.Item, module: str) -> bool:
    return item.nodeid.split("::", 1)[0] == module
