"""Show where a test run spends its time: `pytest -p tests.time_spent --time-spent FILE`, with or without xdist.

Writes Markdown tables: wall-clock time by test file and by fixture, CPU time by kind of process. Processes are
sampled once a second, so one that lives for less than a second is only part of what all processors did.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path

import psutil
import pytest

_EVERY_SECONDS = 1.0
_ROWS = 40
"""Maximum rows of a table; the rest is left out."""
_FIXTURES = "fixture_seconds"
# The first of these that occurs in a process's command line determines its kind.
_KINDS = (
    ("kafka.Kafka", "Kafka brokers (Java)"),
    ("org.apache.kafka", "Kafka's own tools (Java)"),
    ("org.apache.spark", "Spark (Java)"),
    ("pyspark", "Spark's Python workers"),
    ("spark.jobs", "Spark's Python workers"),
    ("valkey-server", "Valkey"),
    ("postgres", "PostgreSQL"),
    ("celery", "Celery workers"),
    ("workers.app", "Celery workers"),
    ("workers.zone_router", "nodes of the zone router"),
    ("backend.asgi", "API and console"),
    ("backend.estate.proxy", "proxies of estates"),
    ("backend.estate", "supervisors of estates"),
    ("backend.cli", "`treeline` commands"),
    ("chrom", "Chromium"),
    ("playwright", "Chromium"),
    ("pytest", "test processes"),
)


def kind_of(command: str) -> str:
    """Return the kind of the process with this command line."""
    return next((kind for mark, kind in _KINDS if mark in command), "other programs")


class Processes:
    """Samples the CPU time of all processes in a thread, and adds it up by kind of process."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, float], tuple[str, float]] = {}
        self._busy_before = self._busy()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="time-spent", daemon=True)
        self._thread.start()

    def end(self) -> list[tuple[str, float]]:
        """Stop sampling; return (kind, CPU seconds), the largest first."""
        self._ended.set()
        self._thread.join()
        found: defaultdict[str, float] = defaultdict(float)
        for kind, seconds in self._seen.values():
            found[kind] += seconds
        found["not seen: the system, and processes of less than a second"] = (
            self._busy() - self._busy_before - sum(found.values())
        )
        return sorted(found.items(), key=lambda each: -each[1])

    def _run(self) -> None:
        before = {key: seconds for key, _, seconds in self._now()}
        while not self._ended.wait(_EVERY_SECONDS):
            for key, command, seconds in self._now():
                self._seen[key] = kind_of(command), seconds - before.get(key, 0.0)

    def _now(self) -> Iterable[tuple[tuple[int, float], str, float]]:
        for process in psutil.process_iter(["cmdline", "cpu_times", "create_time"]):
            found = process.info
            if found["cmdline"]:  # threads of the system have none
                times = found["cpu_times"]
                yield (process.pid, found["create_time"]), " ".join(found["cmdline"]), times.user + times.system

    def _busy(self) -> float:
        """Return the CPU seconds that all processors together have worked."""
        times = psutil.cpu_times()
        return times.user + times.nice + times.system + times.irq + times.softirq


class TimeSpent:
    """Collects the figures and writes the tables. With xdist it works in the controller, which runs no tests."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        self._tests: defaultdict[str, int] = defaultdict(int)
        self._fixtures: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._began = time.monotonic()
        self._processes = Processes()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        self._files[file][("setup", "call", "teardown").index(report.when or "call")] += report.duration
        self._tests[file] += report.when == "call"
        if report.when == "teardown":
            for name, seconds in dict(report.user_properties).get(_FIXTURES, ()):  # type: ignore[call-overload]
                self._fixtures[name][0] += 1
                self._fixtures[name][1] += seconds

    def pytest_sessionfinish(self) -> None:
        cpu, wall = self._processes.end(), time.monotonic() - self._began
        files = sorted(self._files.items(), key=lambda each: -sum(each[1]))[:_ROWS]
        fixtures = sorted(self._fixtures.items(), key=lambda each: -each[1][1])[:_ROWS]
        total = sum(seconds for _, seconds in cpu)
        lines = [
            f"Wall clock {wall / 60:.1f} min, {os.cpu_count()} processors, {total / 60:.1f} min of CPU time "
            f"({total / wall / (os.cpu_count() or 1):.0%} busy).",
            "",
            "| kind of process | CPU s | share |\n|---|---:|---:|",
            *(f"| {kind} | {seconds:,.0f} | {seconds / total:.0%} |" for kind, seconds in cpu),
            "",
            "| test file | tests | set up s | run s | tear down s |\n|---|---:|---:|---:|---:|",
            *(
                f"| {file} | {self._tests[file]} | {before:,.0f} | {at:,.0f} | {after:,.0f} |"
                for file, (before, at, after) in files
            ),
            "",
            "| fixture | times | s, without the fixtures it uses |\n|---|---:|---:|",
            *(f"| {name} | {times:.0f} | {seconds:,.0f} |" for name, (times, seconds) in fixtures),
        ]
        self._path.write_text("\n".join(lines) + "\n")


class Fixtures:
    """Measures fixtures in the process that runs tests, and sends the figures with each test's report."""

    def __init__(self) -> None:
        self._running: list[float] = []
        """For each fixture that is being set up, the seconds that the fixtures within it took."""
        self._found: list[tuple[str, float]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        began = time.perf_counter()
        self._running.append(0.0)
        try:
            return (yield)
        finally:
            took, within = time.perf_counter() - began, self._running.pop()
            if self._running:
                self._running[-1] += took
            self._found.append((f"{fixturedef.argname} ({fixturedef.baseid or 'plugin'})", took - within))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        item.user_properties.append((_FIXTURES, self._found))
        self._found = []
        return (yield)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--time-spent", type=Path, help="write where time went to this file, in Markdown")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("time_spent")
    if path is None:
        return
    config.pluginmanager.register(Fixtures())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(TimeSpent(path))
