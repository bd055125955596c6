"""The estate of five clusters that the fault tests share; one for each run of the folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from backend.settings import PROJECT_ROOT
from tests.faults.runs import Place
from tests.support.estate.running import boot, treeline

FIVE_CLUSTERS = PROJECT_ROOT / "tests" / "faults" / "five.yaml"


@pytest.fixture(scope="package")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Yield five clusters behind the proxy, which every test leaves intact. Booting takes longer than any test."""
    home = tmp_path_factory.mktemp("faults") / "home"
    estate = boot(home, FIVE_CLUSTERS)
    try:
        assert estate.booted.returncode == 0, estate.booted.stdout + estate.booted.stderr
        yield Place(estate)
    finally:
        treeline(home, "down", "--wipe")
