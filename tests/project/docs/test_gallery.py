"""Every page of the console has its picture, and a place in the documentation of the console."""

from __future__ import annotations

import re

import pytest

from tests.project.docs.pages import DOCS
from tests.support.console import gallery
from tests.support.console.gallery import NO_PICTURE, PICTURES

FOLDER = DOCS / "images" / "gallery"
MOST_BYTES = 4_000_000
"""Maximum bytes of all pictures: everyone who clones the repository downloads them."""
BLOCKS = ("/-live", "/-applied")


def shown_at(address: str, routes: list[str]) -> str:
    """Return the route that an address leads to; names do not begin with "-", as forms do."""
    path = address.partition("?")[0]
    for route in routes:
        parts = [r".+" if part.endswith(":path}") else r"[^/-][^/]*" if part.startswith("{") else re.escape(part)
                 for part in route.split("/")]  # fmt: skip
        if re.fullmatch("/".join(parts), path):
            return route
    raise AssertionError(f"{address} is no page")


def test_every_page_has_a_picture() -> None:
    routes = gallery.routes()
    pages = {each for each in routes if not each.endswith(BLOCKS)} - NO_PICTURE.keys()
    pictured = {shown_at(each.address, routes) for each in PICTURES}
    missing = sorted(pages - pictured)
    assert not missing, (
        f"no picture of {missing}: add them to tests/support/console/gallery.py and run `make pictures`"
    )
    assert NO_PICTURE.keys() <= set(routes), "of what there is no more"


def test_every_picture_is_there_and_no_other() -> None:
    named = {f"{each.name}{look}.webp" for each in PICTURES for look in each.looks}
    assert {path.name for path in FOLDER.iterdir()} == named, "run `make pictures`"
    assert len({each.name for each in PICTURES}) == len(PICTURES)


def test_pictures_are_small() -> None:
    sizes = {path: path.stat().st_size for path in DOCS.rglob("*") if path.suffix in (".png", ".webp")}
    assert sum(sizes.values()) < MOST_BYTES
    assert max(sizes.values()) < 250_000


@pytest.mark.parametrize(
    "route", sorted({f"/{each.split('/')[1]}" for each in gallery.routes()} - {"/static", "/"})
)
def test_the_guide_of_the_console_names_every_page(route: str) -> None:
    assert re.search(rf"`{re.escape(route)}[`/?]", (DOCS / "console.md").read_text()), (
        f"{route} is not in console.md"
    )
