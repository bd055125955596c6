"""Batches and held clients: neither overlooks the other, and nobody waits for the dead."""

from __future__ import annotations

import subprocess
import sys

from sqlalchemy import Engine

from backend.domain.switch.cluster_switch import Phase
from backend.queries.switch import switch_progress
from backend.settings import PROJECT_ROOT
from tests.eventually import eventually
from tests.postgres.switch.test_discovery import start, switched, to
from tests.support.api.rest import Rest
from workers import batch_exclusion

RUN_ONE = """
import sys, time
from backend.eventlog.engine import create_engine
from workers import batch_exclusion
with batch_exclusion.running(create_engine(sys.argv[1])):
    time.sleep(1000)
"""


def engine_of(rest: Rest) -> Engine:
    engine: Engine = rest.client.app.state.services.engine  # type: ignore[attr-defined]
    return engine


def are_running(engine: Engine) -> bool:
    with engine.begin() as connection:
        return batch_exclusion.are_running(connection)


def may_run(engine: Engine) -> bool:
    with batch_exclusion.running(engine) as may:
        return may


def test_a_batch_is_seen_as_long_as_it_runs(tenant: Rest) -> None:
    engine = engine_of(tenant)
    assert not are_running(engine)
    with batch_exclusion.running(engine) as first:
        assert are_running(engine)
        with batch_exclusion.running(engine) as second:
            assert first and second, "batches do not wait for each other"
        assert are_running(engine)
    assert not are_running(engine)


def test_one_that_fails_is_over(tenant: Rest) -> None:
    engine = engine_of(tenant)
    try:
        with batch_exclusion.running(engine):
            raise RuntimeError("Spark is gone")
    except RuntimeError:
        assert not are_running(engine)


def test_whoever_is_killed_with_one_holds_nobody_up(tenant: Rest) -> None:
    engine = engine_of(tenant)
    url = engine.url.render_as_string(hide_password=False)
    with subprocess.Popen([sys.executable, "-c", RUN_ONE, url], cwd=PROJECT_ROOT) as process:
        eventually(lambda: are_running(engine), "it runs")
        process.kill()
    eventually(lambda: not are_running(engine), "its lock is gone")


def test_none_begins_from_when_clients_are_about_to_be_held_until_they_are_moved(tenant: Rest) -> None:
    engine = engine_of(tenant)
    switched(tenant, start())
    assert may_run(engine), "a target that is far behind may take long to come near"
    with engine.begin() as connection:
        switch_progress.write(connection, "s1", {"missing_records": 3, batch_exclusion.ABOUT_TO_HOLD: True})
    assert not may_run(engine)
    with engine.begin() as connection:
        switch_progress.write(connection, "s1", {"missing_records": 9_000})
    assert may_run(engine), "it has fallen behind again"
    switched(tenant, to(Phase.HOLDING))
    assert not may_run(engine)
    switched(tenant, to(Phase.DRAINING), to(Phase.CLOSING))
    assert not may_run(engine)
