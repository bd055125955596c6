"""How Sphinx makes a site of these pages: `make docs` writes it to `site/`, and any warning is an error.

The pages are plain Markdown, which reads as well where the repository is browsed. The navigation is what
`index.md` and `decisions/index.md` link to, heading by heading: a page that neither names is a warning.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent

project = "Treeline"
copyright = "the Treeline authors"
html_title = "Treeline"
html_theme = "furo"
html_theme_options = {"sidebar_hide_name": False}
html_show_sphinx = False
html_copy_source = False
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
myst_heading_anchors = 4
# Nothing is fetched from elsewhere when a page is read: the theme's fonts are the system's, its search is local.
html_permalinks_icon = "#"
suppress_warnings = [
    # Examples with three dots, or answers of several commands, are no one language.
    "misc.highlighting_failure",
]
NAMED = re.compile(r"^\s*[-*] \[[^\]]+\]\((?P<page>[^)#:]+)\.md\)", re.MULTILINE)
"""A page in a list of links."""
ASIDE = {"decisions/index": "[0-9]*"}
"""Pages that head all others of their folder."""


def navigation(name: str, text: str) -> str:
    """The text of a page with what Sphinx is to know of the pages that it heads."""
    if name in ASIDE:
        return f"{text}\n```{{toctree}}\n:glob:\n:maxdepth: 1\n\n{ASIDE[name]}\n```\n"
    parts = []
    for heading in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = heading.partition("\n")
        if pages := NAMED.findall(body):
            parts.append("\n".join(["```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```"]))
    return "\n\n".join([text, *parts, ""])


def _read(_app: object, name: str, source: list[str]) -> None:
    if name == root_doc or name in ASIDE:
        source[0] = navigation(name, source[0])


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls when it has read this file."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
