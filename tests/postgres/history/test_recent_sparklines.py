"""Sparklines that are kept for a while: read once for all viewers, and bounded in number."""

from __future__ import annotations

import pytest

from backend.web.history import recent_sparklines
from backend.web.history.recent_sparklines import AGAIN_SECONDS, RecentSparklines
from tests.support.console.measuring import measured
from tests.support.database.postgres import Database

LAG = "group.lag_records"


def test_they_are_read_again_once_they_are_old(database: Database) -> None:
    now = 0.0
    recent = RecentSparklines(LAG, lambda: now)

    def text(subject: str) -> str | None:
        with database.engine.connect() as connection:
            line = recent.read(connection, [subject])[subject]
        return None if line is None else line.text

    assert text("c1/a") is None
    measured(database, {(LAG, "c1/a"): [5.0, 7.0, 9.0]})
    assert text("c1/a") is None, "not read again yet"
    now += AGAIN_SECONDS
    told = text("c1/a")
    assert told is not None and "c1/a" in told


def test_their_number_is_bounded(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_sparklines, "MOST_KEPT", 10)
    recent = RecentSparklines(LAG, lambda: 0.0)
    with database.engine.connect() as connection:
        for number in range(30):
            recent.read(connection, [f"c1/{number}"])
    assert len(recent._kept) <= 10
