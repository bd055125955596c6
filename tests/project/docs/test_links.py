"""Every link of the documentation to another page, a heading or a file has an existing target."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.project.architecture.sources import python_files, text_of
from tests.project.docs.pages import anchors, pages, prose, shown

FOLDERS = "backend|bench|changelog|client|deploy|docs|estates|frontend|migrations|requirements|spark|tests|workers"
FILE = re.compile(rf"`((?:{FOLDERS})/[\w./*{{}}-]+)`")
MODULE = re.compile(r"(?<![\w/.}-])((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)\b")
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
    """A path in code marks that begins with a folder of the project matches an existing file; {…} is any name."""
    root = pages()[0].parents[1]
    broken = []
    for page in pages():
        for named in FILE.findall(page.read_text()):
            if not list(root.glob(re.sub(r"\{[^}]*\}", "*", named).rstrip("/"))):
                broken.append(f"{shown(page)}: {named}")
    assert not broken, "\n".join(broken)


def test_docstrings_and_comments_name_no_module_that_there_is_not() -> None:
    """A path to a module, such as `domain/tree/tree.py`, is the end of an existing path."""
    modules = [f"/{shown(path)}" for path in python_files()]
    broken = [
        f"{shown(path)}: {named}"
        for path in python_files("backend", "workers", "spark", "client", "migrations")
        for named in MODULE.findall(text_of(path))
        if not any(module.endswith(f"/{named}") for module in modules)
    ]
    assert not broken, "\n".join(broken)
