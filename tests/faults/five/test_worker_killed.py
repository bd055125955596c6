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


def kill_worker(place):
    """Kill the whole Celery worker by its parent process; the pool must not outlive it."""
    os.kill(place.pid("worker:shifts"), signal.SIGKILL)


def kill_pool_process(place):
    """Kill one pool process, with half of all tasks."""
    max(map(psutil.Process, place.pool()), key=lambda process: process.num_threads()).kill()


def kill_all_celery(place):
    """Kill all of Celery at once, including the reconcile loop and the schedule."""
    for pid in [place.pid(name) for name in ("worker:shifts", "worker:control", "beat")]:
        os.kill(pid, signal.SIGKILL)


def end_of(servers):
    """Return how far the topic has grown on a cluster: its records, and a few transaction markers."""
    reader = Consumer({"bootstrap.servers": servers, "group.id": "test-ends"})
    try:
        partitions = reader.list_topics(TOPIC, 15).topics[TOPIC].partitions
        return sum(reader.get_watermark_offsets(TopicPartition(TOPIC, each), 15)[1] for each in partitions)
    finally:
        reader.close()


@pytest.mark.parametrize(
    "kill",
    [
        kill_all_celery,
        # Random faults cover these, too.
        kill_worker,
        kill_pool_process,
    ],
)
@pytest.mark.nightly  # the same on two clusters: small/test_all_workers_killed.py
def test_every_record_arrives_once_although_workers_are_killed(place, kill):
    every_record_arrives_once(place, kill, looked_at="cluster-4")


def every_record_arrives_once(place, kill, looked_at):
    """Kill processes while this cluster receives records; check every copy, and that other processes copy."""
    in_all = len(place.servers) * RECORDS

    def epochs():
        running = all(row["state"] in ("running", "degraded") for row in place.distributors())
        return place.epochs() if running else None

    before = eventually(epochs, "all distributors running")
    servers = place.servers[looked_at]
    began = end_of(servers)

    def copied():
        return end_of(servers) - began

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
    kill(place)
    left = in_all - copied()
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
