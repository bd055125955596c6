"""How Sphinx makes a site of these pages: `make docs` writes it to `site/`, and any warning is an error.

The pages are plain Markdown, which reads as well where the repository is browsed. The navigation is what
`index.md` links to, heading by heading: a page that it does not name is a warning.
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
ASIDE = {"decisions/index": "[0-9]*", "reports/index": "[a-z]*"}
"""Pages that head all others of their folder."""
TAKEN_IN = {"architecture": "ARCHITECTURE.md", "client": "client/README.md"}
"""Pages whose text stands elsewhere in the repository, where it belongs."""


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


def taken_in(name: str) -> str:
    """The text of a file outside of docs/, with links as they are from here; where they lead to no page, plain."""
    file = DOCS.parent / TAKEN_IN[name]

    def here(link: re.Match[str]) -> str:
        target = link["target"]
        if "://" in target or target.startswith("#"):
            return link[0]
        path, _, anchor = target.partition("#")
        found = (file.parent / path).resolve()
        if not found.is_relative_to(DOCS) or found.is_dir():
            return f"`{link['text']}`"
        return f"[{link['text']}]({found.relative_to(DOCS)}{'#' if anchor else ''}{anchor})"

    return re.sub(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>[^)\s]+)\)", here, file.read_text())


def to_pages(text: str) -> str:
    """Links to what is taken in lead to its page."""
    for page, file in TAKEN_IN.items():
        text = re.sub(rf"\]\(\.\./((?:\.\./)*){re.escape(file)}", rf"](\g<1>{page}.md", text)
    return text


def _read(_app: object, name: str, source: list[str]) -> None:
    text = taken_in(name) if name in TAKEN_IN else to_pages(source[0])
    source[0] = navigation(name, text) if name == root_doc or name in ASIDE else text


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls when it has read this file."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
