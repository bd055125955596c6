"""Stylesheets that a page loads together do not undo each other by chance."""

from __future__ import annotations

import re

from backend.settings import PROJECT_ROOT

STYLES = PROJECT_ROOT / "frontend" / "static"
EVERYWHERE = ("fonts.css", "console.css", "tree.css", "tables.css")
# Intended: the width of scrolling content, the sentence of a drill's stage, and names and heads in the drawing.
MEANT = {".scroll", ".sentence", ".name", ".head"}


def rules(name: str) -> list[str]:
    """Return the selectors of a stylesheet's rules."""
    text = re.sub(r"/\*.*?\*/", "", (STYLES / name).read_text(), flags=re.DOTALL)
    return [part.strip() for found in re.findall(r"([^{}]+)\{", text) for part in found.split(",")]


def bare_classes(name: str) -> set[str]:
    """Return classes that a stylesheet styles wherever they occur."""
    return {each for each in rules(name) if re.fullmatch(r"\.[\w-]+", each)}


def named_classes(name: str) -> set[str]:
    """Return classes that a stylesheet names anywhere, such as `.listed` in `.listed thead`."""
    return {found for each in rules(name) for found in re.findall(r"\.[a-z][\w-]*", each)}


def test_a_class_means_one_thing_on_a_page() -> None:
    """`.way` was the head of a switch in one, and a list of steps in the other, and looked like both."""
    found = {path.name: bare_classes(path.name) for path in STYLES.glob("*.css")}
    assert len(found["console.css"]) > 40
    pairs = ((name, other) for name in EVERYWHERE for other in found if other != name)
    both = {(name, other, each) for name, other in pairs for each in found[name] & found[other] - MEANT}
    assert both == set()


def test_a_page_gives_no_other_meaning_to_a_class_of_all_pages() -> None:
    """`.listed` held the first column of tables, and was the height of other tables in a page's stylesheet."""
    ours = set().union(*map(bare_classes, EVERYWHERE))
    named = set().union(*map(named_classes, EVERYWHERE))
    assert ".listed" in named - ours
    pages = [path.name for path in STYLES.glob("*.css") if path.name not in EVERYWHERE]
    assert {(name, each) for name in pages for each in bare_classes(name) & (named - ours) - MEANT} == set()
