"""The small estate that tests share, one file after the other; the last file removes it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.estate.running import SMALL_ESTATE, RunningEstate, boot, treeline


@pytest.fixture(scope="package")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEstate]:
    """Yield two clusters behind the proxy, which every test leaves intact."""
    home = tmp_path_factory.mktemp("small") / "home"
    yield boot(home, SMALL_ESTATE)
    treeline(home, "down", "--wipe")
