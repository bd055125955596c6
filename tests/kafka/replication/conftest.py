"""One cluster for all drills of a module; each drill leaves it whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.drills.cluster import Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    started = Cluster(tmp_path_factory.mktemp("drill"))
    try:
        started.start()
        yield started
    finally:
        started.end()
