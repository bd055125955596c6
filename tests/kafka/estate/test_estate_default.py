"""The default estate as `treeline up` leaves it."""

from __future__ import annotations

from tests.support.estate.running import BOOTED_BYTES, RunningEstate

MOST_BOOTED_BYTES = 3_000_000_000
MOST_BYTES = 4_500_000_000
"""Includes the resident Spark session, which starts once a group commits offsets."""


def test_five_clusters_are_online_and_everything_runs(estate: RunningEstate) -> None:
    assert estate.booted.returncode == 0, estate.booted.stderr
    status = estate.status()
    assert status["ready"] is True
    assert {name: row["state"] for name, row in status["clusters"].items()} == {
        f"cluster-{number}": "online" for number in range(1, 6)
    }


def test_the_whole_estate_stays_within_its_memory(estate: RunningEstate) -> None:
    assert 0 < int((estate.home / BOOTED_BYTES).read_text()) < MOST_BOOTED_BYTES
    status = estate.status()
    assert 0 < status["memory_bytes"] < MOST_BYTES
    assert all(row["memory_bytes"] > 0 for row in status["processes"] if row["state"] == "running")
