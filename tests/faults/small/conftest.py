"""The small estate that tests break, one file after the other; the last file takes it away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.estate_fixture import SMALL_ESTATE, RunningEstate, boot, treeline


@pytest.fixture(scope="package")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEstate]:
    """Two clusters behind the proxy; every test leaves them whole."""
    home = tmp_path_factory.mktemp("small") / "home"
    yield boot(home, SMALL_ESTATE)
    treeline(home, "down", "--wipe")
