"""A worker whose clock is an hour off, and a broker's visibility timeout shorter than a shift."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from backend.estate.processes import load_plan
from tests.estate_fixture import SMALL_ESTATE
from tests.eventually import eventually
from tests.faults.runs import Place, Run, passed

PRELOAD = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


@pytest.mark.nightly
@pytest.mark.parametrize("offset", ["+1h", "-1h"])
def test_a_workers_clock_is_an_hour_off(boot_estate, offset):
    place = Place(boot_estate(SMALL_ESTATE))
    with second_worker(place, offset) as of_second_worker, Run(place) as run:
        eventually(lambda: of_second_worker(place.holders()), "the worker whose clock is off runs units", 0.5)
        run.flow(3)
        place.kill("worker:shifts")
        run.flow(8)
    passed(run)


@contextmanager
def second_worker(place: Place, offset: str) -> Iterator[Callable[[dict[int, int]], bool]]:
    """Another worker like the estate's, under libfaketime; gives whether one of these processes is its own."""
    assert PRELOAD is not None, "the package faketime is not installed (make install-dev)"
    spec = next(spec for spec in load_plan(place.home.plan).processes if spec.name == "worker:shifts")
    argv = [word.replace("shifts@", "late@") for word in spec.argv]
    environment = {"LD_PRELOAD": str(PRELOAD), "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    environment = {**os.environ, **spec.environment, **environment}
    environment["TREELINE_READY_FILE"] += ".late"
    log = place.estate.home / "late.log"
    with log.open("wb") as output:
        worker = subprocess.Popen(argv, cwd=spec.directory, env=environment, stdout=output, stderr=output)
    own = psutil.Process(worker.pid)
    try:
        yield lambda holders: any(child.pid in holders for child in own.children(recursive=True))
    finally:
        worker.terminate()
        worker.wait()


@pytest.mark.nightly
def test_nudges_that_are_delivered_again_while_their_shift_runs(boot_estate):
    """The visibility timeout is a small part of a shift, so Redis gives every nudge out several times."""
    place = Place(boot_estate(SMALL_ESTATE, visibility_timeout_seconds="2", shift_seconds="200"))
    with Run(place, rate=100) as run:
        # Celery's transport looks for such nudges every 100 s.
        run.flow(110)
        # The reconcile loop keeps one nudge waiting; only those given out again are more.
        assert place.redis().llen("treeline.shifts") > 1, "no nudge was delivered again"
    passed(run)
