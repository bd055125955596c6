"""Log output of an estate's processes, shown with a test that fails on it before the estate is wiped."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from backend.estate.home import Home
from tests.support.estate.running import HOMES, RunningEstate

_MOST_LINES = 40


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, None]:
    report = (yield).get_result()
    if report.failed:
        for home in _homes(item):
            for log in sorted(Home(home).logs.glob("*.log")):
                report.sections.append((f"end of {log.name}", _end(log)))


def _homes(item: pytest.Item) -> set[Path]:
    arguments = getattr(item, "funcargs", {})
    of_all = {value.home for value in arguments.values() if isinstance(value, RunningEstate)}
    return of_all | item.stash.get(HOMES, set())


def _end(log: Path) -> str:
    with log.open(errors="replace") as file:
        return "".join(deque(file, maxlen=_MOST_LINES))
