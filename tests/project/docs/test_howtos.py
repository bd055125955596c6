"""The commands of the how-to's, run in bash against a real control plane whose clusters are offline."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nightly import some_now
from tests.project.docs.conftest import run_page
from tests.project.docs.pages import DOCS, blocks
from tests.support.console.consoles import serve_here
from tests.support.database.postgres import Database

RUN = [
    page for page in sorted((DOCS / "howto").glob("*.md")) if any(each.tested == "here" for each in blocks(page))
]


NOW = {"dead-letters", "index", "reverse-proxy", "self-service", "upgrade", "zone-router"}
"""Pages that `make test` runs; between them they run commands of each kind."""


@some_now(
    "page", RUN, now=[place for place, page in enumerate(RUN) if page.stem in NOW], ids=lambda page: page.stem
)
def test_its_commands_do_what_it_says(page: Path, database: Database, tmp_path: Path) -> None:
    with serve_here(database.url, with_schemas=False) as console:
        run_page(page, "here", tmp_path, console.url, console.token)


def test_a_command_that_ends_otherwise_is_found(database: Database, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- tested -->\n```sh\ntreeline get cluster nobody\n```\n")
    with serve_here(database.url) as console, pytest.raises(AssertionError, match="nobody"):
        run_page(page, "here", tmp_path, console.url, console.token)
