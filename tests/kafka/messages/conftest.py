"""The cluster and a log that the tests of one module read."""

from __future__ import annotations

import random

import pytest

from tests.kafka.messages.walks import BASE, made, write


@pytest.fixture(scope="module")
def servers(estate):
    return estate.bootstrap_servers("cluster-1")


@pytest.fixture(scope="module")
def disordered(servers):
    """Return five partitions with timestamps that do not always rise; the fourth is empty."""
    place = made(servers, 5)
    chance = random.Random(7)
    rows = []
    for n in range(300):
        partition = chance.choice([0, 0, 0, 1, 2, 4])
        rows.append((partition, BASE + n * 10 + chance.choice([0, 0, 0, 500, -500]), b"%d" % n))
    write(place, rows)
    return place
