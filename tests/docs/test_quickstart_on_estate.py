"""The quickstart's commands, run in bash on the default estate."""

from __future__ import annotations

from pathlib import Path

from tests.docs.conftest import run_page
from tests.docs.pages import DOCS
from tests.estate_fixture import RunningEstate


def test_its_commands_do_what_it_says(estate: RunningEstate, tmp_path: Path) -> None:
    run_page(DOCS / "quickstart.md", "estate", tmp_path, estate.url, estate.token)
