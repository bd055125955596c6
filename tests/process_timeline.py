"""Timeline of parallel test processes, shown at the end to judge the order of `parallel_groups.py`."""

from __future__ import annotations

import pytest

from tests.parallel_groups import shared_with

LEAST_SECONDS = 20.0
"""Minimum duration of spans to be shown."""

Span = tuple[float, float]
"""Start and end in seconds."""


class Turns:
    """Collected test times by process and by what the tests share."""

    def __init__(self) -> None:
        self._spans: dict[tuple[str, str], Span] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        worker = getattr(report, "worker_id", None)
        if worker is None:  # of a test that a process left by dying
            return
        key = worker, shared_with(report.nodeid)
        began, ended = self._spans.get(key, (report.start, report.stop))
        self._spans[key] = min(began, report.start), max(ended, report.stop)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("side by side, in minutes")
        for line in self.lines():
            terminalreporter.write_line(line)

    def lines(self) -> list[str]:
        """Return the long spans of each process in order; then the end of each process."""
        first = min((began for began, _ in self._spans.values()), default=0.0)
        shown = [
            f"{worker}  {(began - first) / 60:5.1f} to {(ended - first) / 60:5.1f}  {shared}"
            for (worker, shared), (began, ended) in sorted(
                self._spans.items(), key=lambda each: (each[0][0], each[1])
            )
            if ended - began >= LEAST_SECONDS
        ]
        ends: dict[str, float] = {}
        for (worker, _), (_, ended) in self._spans.items():
            ends[worker] = max(ends.get(worker, 0.0), (ended - first) / 60)
        return [*shown, *(f"{worker}  ended at {ends[worker]:.1f}" for worker in sorted(ends))]


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("numprocesses", None):  # of the process that reports for the others
        config.pluginmanager.register(Turns())
