"""Parsed files are kept for the tests of this folder only."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.project.architecture import sources


@pytest.fixture(scope="package", autouse=True)
def parsed_for_this_folder() -> Iterator[None]:
    """Drop the parsed files at the end.

    They are millions of objects. Each full garbage collection of the later tests in this process would visit them
    and stop all of its threads meanwhile, for seconds on a busy machine.
    """
    yield
    sources.parsed.cache_clear()
    gc.collect()
