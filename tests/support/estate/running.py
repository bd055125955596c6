"""`estate`: one real local estate per test session, booted by `treeline up`, shared between xdist workers.

Tests that break things (kill, cut, wipe) boot one of their own with `boot_estate`.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from backend.estate import running
from backend.estate.home import Home
from backend.settings import PROJECT_ROOT
from tests.support.api import forked

DEFAULT_ESTATE = PROJECT_ROOT / "estates" / "unbalanced.yaml"
BOOTED_BYTES = "memory-when-booted"
"""File in the shared estate's home: the memory of all its processes before any test had used it."""
SMALL_ESTATE = PROJECT_ROOT / "tests" / "support" / "estate" / "small.yaml"


@dataclass(frozen=True)
class RunningEstate:
    """An estate that `treeline up` has started; `booted` is the finished command."""

    home: Path
    booted: subprocess.CompletedProcess[str]

    @property
    def url(self) -> str:
        return str(running.read_layout(Home(self.home))["url"])

    @property
    def token(self) -> str:
        return Home(self.home).secret("admin-token")

    def bootstrap_servers(self, cluster: str) -> str:
        return str(running.read_layout(Home(self.home))["clusters"][cluster])

    def status(self) -> dict[str, Any]:
        """Return what `treeline status --json` prints, without starting a program for it."""
        return running.status(Home(self.home))

    def process(self, name: str) -> dict[str, Any]:
        """Return one process from the supervisor's state."""
        state = running.read_state(Home(self.home))
        assert state is not None, "the estate has not started"
        found: dict[str, Any] = next(row for row in state["processes"] if row["name"] == name)
        return found

    def treeline(self, *words: str) -> subprocess.CompletedProcess[str]:
        return forked.run(words, PROJECT_ROOT, _environment(self.home), given="")


def treeline(home: Path, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run the program `treeline` for one home, without the caller's TREELINE variables.

    `settings` go into its environment: `visibility_timeout_seconds="3"`.
    """
    return subprocess.run(
        [sys.executable, "-m", "backend.cli", *words],
        cwd=PROJECT_ROOT,
        env={**_environment(home), **{f"TREELINE_{k.upper()}": v for k, v in settings.items()}},
        capture_output=True,
        text=True,
        check=False,
    )


def _environment(home: Path) -> dict[str, str]:
    # COLUMNS is set by pytest's parallel processes, and does not describe a user's terminal.
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("TREELINE_", "COLUMNS"))}
    if cache := os.environ.get("TREELINE_CACHE"):
        outside["TREELINE_CACHE"] = cache
    return {**outside, "TREELINE_HOME": str(home)}


def boot(home: Path, file: Path, *words: str, **settings: str) -> RunningEstate:
    """Run `treeline up` on spare ports; processes that do not run afterwards are for the test to judge.

    The estate ends with the test run, also when that is killed.
    """
    test_run = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    options = ["--spare-ports", "--no-verify", "--while-pid", str(test_run)]
    booted = treeline(home, "up", "--estate", str(file), *options, *words, **settings)
    return RunningEstate(home, booted)


HOMES = pytest.StashKey[set[Path]]()
"""Homes of the estates that a test has booted."""


@pytest.fixture
def boot_estate(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., RunningEstate]]:
    """Yield a function that boots the test's own estates, in one home; ended and wiped afterwards."""
    home = tmp_path / "home"
    request.node.stash[HOMES] = {home}

    def start(file: Path, *words: str, **settings: str) -> RunningEstate:
        return boot(home, file, *words, **settings)

    yield start
    treeline(home, "down", "--wipe")


@pytest.fixture(scope="session")
def estate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEstate]:
    """Yield the default estate, running; do not break it."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # the one folder that all workers of this session share
    folder /= "estate"
    folder.mkdir(exist_ok=True)
    users, home = folder / "users", folder / "home"
    with _alone(folder):
        # A second worker finds it running: `up` then only answers.
        booted = boot(home, DEFAULT_ESTATE)
        if _count(users, +1) == 1:
            (home / BOOTED_BYTES).write_text(str(booted.status().get("memory_bytes", 0)))
    processes = booted.status()["processes"]
    stopped = [
        row
        for row in processes
        if row["name"].startswith(("kafka:", "postgres", "valkey")) and row["state"] != "running"
    ]
    try:
        if stopped or not processes:
            pytest.fail(f"the estate did not come up:\n{booted.booted.stdout}{booted.booted.stderr}")
        yield booted
    finally:
        with _alone(folder):
            if _count(users, -1) == 0:
                treeline(home, "down", "--wipe")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _count(path: Path, change: int) -> int:
    count = (int(path.read_text()) if path.exists() else 0) + change
    path.write_text(str(count))
    return count
