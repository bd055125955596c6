"""kill -9 of Celery workers during 100,000 records: all arrive exactly once, without intervention."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition

from backend.settings import PROJECT_ROOT
from tests.eventually import eventually

RECORDS = 30_000  # on each cluster
TOPIC = "_treeline.verify"


def the_worker(place):
    """Return the parent process of the whole Celery worker; the pool must not outlive it."""
    return [place.pid("worker:shifts")]


def a_pool_process(place):
    """Return one pool process, with half of all tasks."""
    return [max(map(psutil.Process, place.pool()), key=lambda process: process.num_threads()).pid]


def all_of_celery(place):
    """Return all of Celery, including the reconcile loop and the schedule."""
    return [place.pid(name) for name in ("worker:shifts", "worker:control", "beat")]


class Ends:
    """Reads the ends of the topic on one cluster, which count its records and a few transaction markers."""

    def __init__(self, servers):
        self._reader = Consumer({"bootstrap.servers": servers, "group.id": "test-ends"})
        partitions = self._reader.list_topics(TOPIC, 15).topics[TOPIC].partitions
        self._partitions = [TopicPartition(TOPIC, each) for each in partitions]

    def now(self):
        return sum(self._reader.get_watermark_offsets(each, 15)[1] for each in self._partitions)

    def close(self):
        self._reader.close()


@pytest.mark.parametrize(
    "victims",
    [
        all_of_celery,
        # Random faults cover these, too.
        the_worker,
        a_pool_process,
    ],
)
@pytest.mark.nightly  # the same on two clusters: small/test_all_workers_killed.py
def test_every_record_arrives_once_although_workers_are_killed(place, victims):
    every_record_arrives_once(place, victims, looked_at="cluster-4")


def every_record_arrives_once(place, victims, looked_at):
    """Kill processes while this cluster receives records; check every copy, and that other processes copy."""
    in_all = len(place.servers) * RECORDS

    def epochs():
        running = all(row["state"] in ("running", "degraded") for row in place.distributors())
        return place.epochs() if running else None

    before = eventually(epochs, "all distributors running")
    ends = Ends(place.servers[looked_at])
    began = ends.now()
    # Found before: to look for them takes longer than copying does.
    doomed = victims(place)

    def copied():
        return ends.now() - began

    verify = subprocess.Popen(
        [sys.executable, "-m", "backend.cli", "verify", "--records", str(RECORDS), "--json"],
        cwd=PROJECT_ROOT,
        env={**os.environ, "TREELINE_HOME": str(place.estate.home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in verify.stderr:
        if "producing" in line:
            break
    eventually(lambda: copied() > RECORDS // 20, "records are being copied", every_seconds=0.01)
    for pid in doomed:
        os.kill(pid, signal.SIGKILL)
    left = in_all - copied()
    ends.close()
    told, _ = verify.communicate()
    answer = json.loads(told)
    assert verify.returncode == 0, answer["problems"][:10]
    assert left > RECORDS // 2, "the kill came too late to prove anything"
    for report in answer["clusters"].values():
        assert report["distinct"] == report["expected"] == in_all

    def changed_hands():
        now = epochs()
        return now is not None and any(now[edge] > before[edge] for edge in before)

    eventually(changed_hands, "units have changed hands, and all run")
