"""A worker whose clock is an hour off, and a visibility timeout shorter than a worker session."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from backend.estate.processes import load_plan
from tests.eventually import eventually
from tests.faults.runs import Place, Run, passed
from tests.support.estate.running import SMALL_ESTATE

HOUR = 3600


@pytest.fixture(scope="module")
def clock_off(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a library that shifts the clock of a process."""
    library = tmp_path_factory.mktemp("clock") / "clock_off.so"
    source = Path(__file__).with_name("clock_off.c")
    compiler = shutil.which("cc") or pytest.skip("there is no C compiler")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.mark.nightly
@pytest.mark.parametrize("seconds", [HOUR, -HOUR])
def test_a_workers_clock_is_an_hour_off(boot_estate, clock_off, seconds):
    place = Place(boot_estate(SMALL_ESTATE))
    with second_worker(place, clock_off, seconds) as of_second_worker, Run(place) as run:
        eventually(lambda: of_second_worker(place.holders()), "the worker whose clock is off runs units", 0.5)
        run.flow(3)
        place.kill("worker:shifts")
        run.flow(8)
    passed(run)


@contextmanager
def second_worker(place: Place, clock_off: Path, seconds: int) -> Iterator[Callable[[dict[int, int]], bool]]:
    """Run another worker like the estate's, with its clock off; yield whether a process is its own."""
    spec = next(spec for spec in load_plan(place.home.plan).processes if spec.name == "worker:shifts")
    argv = [word.replace("shifts@", "late@") for word in spec.argv]
    environment = {**os.environ, **spec.environment}
    environment |= {"LD_PRELOAD": str(clock_off), "CLOCK_OFF_SECONDS": str(seconds)}
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
def test_nudges_that_are_delivered_again_while_their_session_runs(boot_estate):
    """Check a visibility timeout much shorter than a session: Valkey delivers every message several times."""
    place = Place(boot_estate(SMALL_ESTATE, visibility_timeout_seconds="2", shift_seconds="200"))
    with Run(place, rate=100) as run:
        # Celery's transport looks for such messages every 100 s.
        run.flow(110)
        # The reconcile loop keeps one message waiting; any more are redelivered ones.
        assert place.valkey().llen("treeline.shifts") > 1, "no nudge was delivered again"
    passed(run)
