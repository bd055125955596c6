"""Every link of the documentation to another page, a heading or a file has an existing target."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import anchors, pages, prose, shown

LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")


@pytest.mark.parametrize("page", pages(), ids=shown)
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for target in LINK.findall(prose(page)):
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, anchor = target.partition("#")
        there = (page.parent / name).resolve() if name else page
        if not there.exists():
            broken.append(f"{target}: there is no such file")
        elif anchor and anchor not in anchors(there):
            broken.append(f"{target}: it has no such heading")
    assert not broken, "\n".join(broken)


def test_pages_name_no_file_of_the_code_that_there_is_not() -> None:
    """A path in code marks with a folder of the project and an extension matches an existing file."""
    root = pages()[0].parents[1]
    path = re.compile(r"`((?:backend|workers|spark|tests|estates|migrations|frontend|bench|client)/[\w./*{}-]+)`")
    broken = []
    for page in pages():
        for named in path.findall(page.read_text()):
            if "{" not in named and not list(root.glob(named.rstrip("/"))):
                broken.append(f"{shown(page)}: {named}")
    assert not broken, "\n".join(broken)
