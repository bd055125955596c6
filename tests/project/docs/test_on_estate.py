"""The commands of the quickstart, and those of how-to's that need clusters, run in bash on the default estate."""

from __future__ import annotations

from pathlib import Path

from tests.nightly import some_now
from tests.project.docs.conftest import run_page
from tests.project.docs.pages import blocks, pages, shown
from tests.support.estate.running import RunningEstate

RUN = [page for page in pages() if any(each.tested == "estate" for each in blocks(page))]


NOW = {"quickstart"}
"""The page that `make test` runs."""


@some_now("page", RUN, now=[place for place, page in enumerate(RUN) if page.stem in NOW], ids=shown)
def test_its_commands_do_what_it_says(estate: RunningEstate, page: Path, tmp_path: Path) -> None:
    run_page(page, "estate", tmp_path, estate.url, estate.token)
