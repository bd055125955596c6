"""A minute of random faults at 2,000 records a second; `make soak` does it for longer."""

from __future__ import annotations

import secrets

import pytest

from tests.faults.soak import soak

SECONDS = 60


def test_a_minute_of_random_faults_leaves_no_anomaly(place):
    told: list[str] = []
    report = soak(place, SECONDS, secrets.randbits(32), told.append)
    assert report.faults
    if report.anomalies:
        pytest.fail("\n".join([f"seed {report.seed}", *told, *report.anomalies[:20]]))
