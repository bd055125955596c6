"""Configuration of Sphinx: `make docs` builds the site in `site/`, and any warning is an error.

The pages are plain Markdown, which is also readable in the repository. The navigation consists of the links in
`index.md`, heading by heading: a page that it does not name is a warning.
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
# Pages load nothing from other sites: the theme's fonts are the system's, its search is local.
html_permalinks_icon = "#"
suppress_warnings = [
    # Examples with three dots, or output of several commands, are in no single language.
    "misc.highlighting_failure",
]
NAMED = re.compile(r"^\s*[-*] \[[^\]]+\]\((?P<page>[^)#:]+)\.md\)", re.MULTILINE)
"""Matches a page in a list of links."""
ASIDE = {"decisions/index": "[0-9]*", "reports/index": "[a-z]*"}
"""Pages that head all other pages of their folder."""
TAKEN_IN = {"architecture": "ARCHITECTURE.md", "client": "client/README.md"}
"""Pages whose text is kept elsewhere in the repository."""


def navigation(name: str, text: str) -> str:
    """Return the text of a page with Sphinx's navigation for the pages that it heads."""
    if name in ASIDE:
        return f"{text}\n```{{toctree}}\n:glob:\n:maxdepth: 1\n\n{ASIDE[name]}\n```\n"
    parts = []
    for heading in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = heading.partition("\n")
        if pages := NAMED.findall(body):
            parts.append("\n".join(["```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```"]))
    return "\n\n".join([text, *parts, ""])


def taken_in(name: str) -> str:
    """Return the text of a file outside of docs/ with its links adapted; links to no page become plain text."""
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
    """Make links to the included files lead to their pages."""
    for page, file in TAKEN_IN.items():
        text = re.sub(rf"\]\(\.\./((?:\.\./)*){re.escape(file)}", rf"](\g<1>{page}.md", text)
    return text


def _read(_app: object, name: str, source: list[str]) -> None:
    text = taken_in(name) if name in TAKEN_IN else to_pages(source[0])
    source[0] = navigation(name, text) if name == root_doc or name in ASIDE else text


def setup(app: Any) -> dict[str, bool]:
    """Register the extension; Sphinx calls this after reading the file."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
