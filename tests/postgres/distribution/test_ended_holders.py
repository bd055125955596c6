"""Leases of a killed process are free at once, those of a stopped one are not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.settings import PROJECT_ROOT
from tests.eventually import eventually
from workers.leases import leases
from workers.leases.ended_holders import free_ended

LONG = 600.0  # seconds
HOLDER = """
import sys, time
from pathlib import Path
from workers.leases.ended_holders import mark_alive
mark_alive(Path(sys.argv[1]), "here:1")
print("marked", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], cwd=PROJECT_ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "marked\n"
        yield process
        process.kill()


def test_a_killed_holder_s_tasks_are_free_at_once(database, tmp_path, holder):
    with database.engine.begin() as connection:
        leases.acquire(connection, "here:1", ["mine"], LONG)
        leases.acquire(connection, "elsewhere:1", ["theirs"], LONG)
        leases.report_session(connection, "here:1", LONG)
    os.kill(holder.pid, signal.SIGSTOP)
    assert free_ended(database.engine, tmp_path) == []
    holder.kill()
    assert eventually(lambda: free_ended(database.engine, tmp_path), "it is seen to have ended") == ["here:1"]
    with database.engine.begin() as connection:
        assert leases.taken(connection) == {"theirs"}
        assert leases.acquire(connection, "next:2", ["mine"], LONG) == {"mine": 2}
        assert leases.report_session(connection, "next:2", LONG) == 1
    assert free_ended(database.engine, tmp_path) == []


def test_a_holder_that_left_no_mark_is_left_to_its_lease(database, tmp_path):
    with database.engine.begin() as connection:
        leases.acquire(connection, "unmarked:1", ["mine"], LONG)
    assert free_ended(database.engine, tmp_path) == []
    with database.engine.begin() as connection:
        assert leases.taken(connection) == {"mine"}
