"""kill -9 and SIGSTOP of every process while records flow: the checker finds no anomaly."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from backend.eventlog.engine import create_engine
from backend.kafka.copy.control_plane import ControlPlane
from backend.settings import Settings
from tests.eventually import eventually
from tests.faults.runs import Run, passed
from tests.kafka.distribution.test_copy_session import LIMITS
from tests.support.kafka.topics import DEADLINE_SECONDS
from workers.distribution import desired
from workers.distribution.distributor import DistributorThread


@pytest.mark.nightly  # whatever the others find then, they would fail
def test_nothing_is_found_when_nothing_happens(place):
    with Run(place) as run:
        run.flow(3)
    passed(run)
    assert run.verdict.sends["aborted"] > 0, "without aborted records, that they are nowhere proves nothing"


@pytest.mark.nightly
def test_a_broker_that_leads_partitions_is_killed(place):
    with Run(place, replication_factor=3, min_insync_replicas=2) as run:
        run.flow(2)
        found = AdminClient({"bootstrap.servers": place.servers["cluster-1"]}).list_topics(
            timeout=DEADLINE_SECONDS
        )
        topic = next(member.topic for member in run.fleet.members if member.name == "cluster-1")
        leader = found.topics[topic].partitions[0].leader
        assert len(found.topics[topic].partitions[0].replicas) == 3
        place.kill(f"kafka:cluster-1:{leader}")
        run.flow(5)
    passed(run)


@pytest.mark.nightly
def test_the_database_is_killed(place):
    with Run(place) as run:
        run.flow(1)
        place.kill("postgres")
        run.flow(4)
    passed(run)


@pytest.mark.nightly  # so it is with Valkey
def test_the_api_is_killed(place):
    with Run(place) as run:
        run.flow(1)
        place.kill("api")
        run.flow(2)
    passed(run)


@pytest.mark.nightly
def test_valkey_loses_everything_and_is_killed_and_so_is_the_api(place):
    with Run(place) as run:
        run.flow(1)
        before = place.epochs()
        place.kill("api")
        run.flow(1)
        place.valkey().flushall()
        run.flow(2)
        place.kill("valkey")
        run.flow(3)
    passed(run)
    assert place.epochs() == before, "they hold no truth: no task has a reason to change hands"


@pytest.mark.nightly
def test_a_holder_sleeps_beyond_its_leases_and_wakes(place):
    with Run(place) as run:
        run.flow(1)
        sleeper = max(place.holders())
        place.stop(sleeper)
        eventually(
            lambda: sleeper not in (holders := place.holders()) and holders, "others have taken its units", 0.5
        )
        run.flow(1)
        place.go_on(sleeper)
        run.flow(3)
    passed(run)

    def told() -> list[dict[str, Any]]:
        found = place.rest.ok("GET", "/events?stream=fenced-workers&newest=true")["items"]
        return [each["data"] for each in found if each["data"]["holder"].endswith(f":{sleeper}")]

    for lease, epoch, successor, newer in eventually(told, "it says that it was fenced")[0]["leases"]:
        assert lease.startswith("distributor:") and not (successor or "").endswith(f":{sleeper}") and newer > epoch


@contextmanager
def starved(processes: int) -> Iterator[None]:
    """Run busy processes that compete for the CPUs."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for each in busy:
            each.kill()
            each.wait()


@pytest.mark.nightly
def test_a_starved_machine_slows_down_and_moves_no_task(place):
    """Check a starved worker: its leases must not expire, or workers fence each other."""

    def fenced() -> int:
        return len(place.rest.ok("GET", "/events?stream=fenced-workers&limit=1000")["items"])

    def copied() -> int:
        return sum(row["copied_records"] for row in place.distributors())

    with Run(place) as run:
        run.flow(2)
        before, told = place.epochs(), fenced()
        with starved(100):
            run.flow(60)
            halfway = copied()
            run.flow(60)
            assert copied() > halfway, "records go on flowing"
    passed(run)
    moved = {each for each, epoch in place.epochs().items() if epoch != before.get(each)}
    assert (moved, fenced()) == (set(), told)


@pytest.mark.nightly
def test_a_worker_that_runs_ever_more_rarely_keeps_its_tasks(place):
    """Check pauses that exceed the usual duration of a lease, as on a machine under growing load."""
    with Run(place) as run:
        run.flow(2)
        before, rarely_run = place.epochs(), max(place.holders())
        for pause in (3, 4.5, 6, 7.5, 9):
            place.stop(rarely_run)
            run.flow(pause)
            place.go_on(rarely_run)
            run.flow(1)
        assert place.epochs() == before, "units that are late are not dead ones"
    passed(run)


@pytest.mark.nightly
def test_tasks_run_on_two_workers_at_once(place):
    """Let another process run tasks against all leases, again and again."""
    with Run(place) as run:
        engine = create_engine(place.database_url())
        with engine.connect() as connection:
            plans = desired.read(connection, Settings(database_url=place.database_url()))
        engine.dispose()
        tasks = [task for task in plans.plans if task.cluster == "cluster-2"]
        for _ in range(2):
            rivals = [
                DistributorThread(
                    task, 1, LIMITS, lambda plan: None, ControlPlane(), plans.plans[task], plans.position
                )
                for task in tasks
            ]
            for rival in rivals:
                rival.start()
            # They fence the holders, which open sessions again and fence them in turn.
            eventually(lambda rivals=rivals: any(rival.state("rival").reason for rival in rivals), "one is fenced")
            for rival in rivals:
                rival.stop()
            for rival in rivals:
                rival.join()
    passed(run)
