"""Stylesheets that a page loads together do not undo each other by chance."""

from __future__ import annotations

import re

from backend.settings import PROJECT_ROOT

STYLES = PROJECT_ROOT / "frontend" / "static"
EVERYWHERE = ("fonts.css", "console.css", "tree.css", "tables.css")
# Intended: the width of scrolling content, and the sentence of a drill's stage.
MEANT = {".scroll", ".sentence"}


def bare_classes(name: str) -> set[str]:
    """Return classes that a stylesheet styles wherever they occur."""
    text = re.sub(r"/\*.*?\*/", "", (STYLES / name).read_text(), flags=re.DOTALL)
    selectors = (part.strip() for found in re.findall(r"([^{}]+)\{", text) for part in found.split(","))
    return {each for each in selectors if re.fullmatch(r"\.[\w-]+", each)}


def test_a_class_means_one_thing_on_a_page() -> None:
    """`.way` was the head of a switch in one, and a list of steps in the other, and looked like both."""
    found = {path.name: bare_classes(path.name) for path in STYLES.glob("*.css")}
    assert len(found["console.css"]) > 40
    pairs = ((name, other) for name in EVERYWHERE for other in found if other != name)
    both = {(name, other, each) for name, other in pairs for each in found[name] & found[other] - MEANT}
    assert both == set()
