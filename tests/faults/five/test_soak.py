"""A minute of random faults at 2,000 records a second; `make soak` does it for longer."""

from __future__ import annotations

import secrets

import pytest

from tests.faults.soak import RECORDS_PER_SECOND, soak

SECONDS = 60


@pytest.mark.nightly
def test_a_minute_of_random_faults_leaves_no_anomaly(place):
    told: list[str] = []
    report = soak(place, SECONDS, secrets.randbits(32), told.append)
    assert report.faults
    print(*report.counts)  # noqa: T201 - shown with the seed by -rP
    assert report.records > SECONDS * RECORDS_PER_SECOND / 2, "there was not load enough for the faults to meet"
    if report.anomalies:
        pytest.fail("\n".join([f"seed {report.seed}", *told, *report.anomalies[:20]]))
