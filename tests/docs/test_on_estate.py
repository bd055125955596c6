"""The commands of the quickstart, and those of how-to's that need clusters, run in bash on the default estate."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.conftest import run_page
from tests.docs.pages import blocks, pages, shown
from tests.estate_fixture import RunningEstate

RUN = [page for page in pages() if any(each.tested == "estate" for each in blocks(page))]


@pytest.mark.parametrize("page", RUN, ids=shown)
def test_its_commands_do_what_it_says(estate: RunningEstate, page: Path, tmp_path: Path) -> None:
    run_page(page, "estate", tmp_path, estate.url, estate.token)
