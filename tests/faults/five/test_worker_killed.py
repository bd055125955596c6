"""kill -9 of Celery workers in the middle of 100,000 records: all on every cluster exactly once, without help."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import psutil
import pytest

from backend.settings import PROJECT_ROOT
from tests.eventually import eventually

RECORDS = 20_000  # on each of five clusters
ARRIVALS = re.compile(r"(\d+) of (\d+) arrivals")


def kill_worker(estate):
    """The whole Celery worker: its parent process; the pool must not outlive it."""
    os.kill(estate.process("worker:shifts")["pid"], signal.SIGKILL)


def kill_pool_process(estate):
    """One pool process, with half of all units."""
    pool = psutil.Process(estate.process("worker:shifts")["pid"]).children(recursive=True)
    busiest = max(pool, key=lambda process: process.num_threads())
    busiest.kill()


def kill_all_celery(estate):
    """Everything of Celery at once: the reconcile loop and the schedule too."""
    for name in ("worker:shifts", "worker:control", "beat"):
        os.kill(estate.process(name)["pid"], signal.SIGKILL)


@pytest.mark.parametrize(
    "kill",
    [
        kill_all_celery,
        # Random faults do these, too.
        pytest.param(kill_worker, marks=pytest.mark.nightly),
        pytest.param(kill_pool_process, marks=pytest.mark.nightly),
    ],
)
def test_every_record_arrives_once_although_workers_are_killed(place, kill):

    def epochs():
        running = all(row["state"] in ("running", "degraded") for row in place.distributors())
        return place.epochs() if running else None

    before = eventually(epochs, "all distributors running")
    verify = subprocess.Popen(
        [sys.executable, "-m", "backend.cli", "verify", "--records", str(RECORDS), "--json"],
        cwd=PROJECT_ROOT,
        env={**os.environ, "TREELINE_HOME": str(place.estate.home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    killed_at = None
    for line in verify.stderr:
        arrivals = ARRIVALS.search(line)
        if arrivals and killed_at is None and int(arrivals[1]) > int(arrivals[2]) // 10:
            kill(place.estate)
            killed_at = int(arrivals[1])
    answer = json.loads(verify.stdout.read())
    assert verify.wait() == 0, answer["problems"][:10]
    assert killed_at is not None and killed_at < 25 * RECORDS, "the kill came too late to prove anything"
    for report in answer["clusters"].values():
        assert report["distinct"] == report["expected"] == 5 * RECORDS
    after = eventually(epochs, "all distributors running again")
    assert any(after[edge] > before[edge] for edge in before), "no unit changed hands: nothing was killed"
