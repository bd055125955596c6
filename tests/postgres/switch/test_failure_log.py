"""A persisting failure is logged now and then, not at every retry."""

from __future__ import annotations

import math

import pytest
from structlog.testing import capture_logs

from backend.settings import Settings
from tests.support.database.postgres import Database
from workers.switches import runner
from workers.switches.failure_log import FailureLog
from workers.switches.runner import SwitchRunner


def test_a_failure_is_logged_when_it_is_another_one_and_again_each_minute_with_how_often_it_happened():
    now = [0.0]
    failures = FailureLog(60.0, lambda: now[0])
    happened = [(0.0, "x"), (0.5, "x"), (59.5, "x"), (60.0, "x"), (61.0, "x"), (62.0, "y"), (63.0, "x")]
    with capture_logs() as logged:
        for at, reason in happened:
            now[0] = at
            failures.failed("it failed", "s1", reason)
    assert [(line["event"], line["switch"], line["reason"], line["times"]) for line in logged] == [
        ("it failed", "s1", "x", 1),
        ("it failed", "s1", "x", 3),
        ("it failed", "s1", "x", 1),
        ("it failed", "s1", "y", 1),
        ("it failed", "s1", "x", 1),
    ]


def test_a_switch_that_fails_for_the_same_reason_again_and_again_logs_it_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(runner, "FailureLog", lambda: FailureLog(math.inf))
    # The lease is checked once a second, and every step fails: there is no such switch.
    is_mine = iter([True, True, True])
    with capture_logs() as logged:
        SwitchRunner(
            database.engine, Settings(database_url=database.url), "s1", lambda _: next(is_mine, False)
        ).run()
    (line,) = logged
    assert (line["event"], line["times"]) == ("a switch cannot continue at the moment", 1)
