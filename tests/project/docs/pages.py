"""The documentation for tests: its pages, code blocks, links and headings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from backend.settings import PROJECT_ROOT

DOCS = PROJECT_ROOT / "docs"
OUTSIDE = ("README.md", "ARCHITECTURE.md", "client/README.md")
BLOCK = re.compile(
    r"^(?P<indent>[ ]*)```(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=indent)```[ ]*$", re.MULTILINE | re.DOTALL
)
SAID_BEFORE = re.compile(r"<!-- (?P<word>tested|file)(?:: (?P<rest>[^>]+?))? -->\s*$")
PROGRAM = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?treeline (?P<rest>.*)$")


@dataclass(frozen=True)
class Block:
    """A fenced block with the comment above it, which readers of the page do not see."""

    language: str
    text: str
    tested: str | None
    """`here`: it is run against a control plane without clusters; `estate`: against a whole estate."""
    file: str | None
    """Name of the file with this text, for the blocks that follow."""


@cache
def pages() -> tuple[Path, ...]:
    """Return every page for people, those of the site and those elsewhere."""
    return (*sorted(DOCS.rglob("*.md")), *(PROJECT_ROOT / name for name in OUTSIDE))


def shown(page: Path) -> str:
    return str(page.relative_to(PROJECT_ROOT))


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page in order, without indentation."""
    text = page.read_text()
    for found in BLOCK.finditer(text):
        indent = len(found["indent"])
        lines = [line[indent:] for line in found["text"].splitlines()]
        said = SAID_BEFORE.search(text[: found.start()])
        word, rest = (said["word"], said["rest"]) if said else ("", None)
        yield Block(
            language=found["language"].strip(),
            text="\n".join(lines) + "\n",
            tested=(rest or "here") if word == "tested" else None,
            file=rest if word == "file" else None,
        )


def prose(page: Path) -> str:
    """Return a page without its blocks."""
    return BLOCK.sub("", page.read_text())


def commands(block: Block) -> Iterator[list[str]]:
    """Yield the words of each `treeline` command of a block, without the program itself.

    Brackets of optional parts are removed, and so is the shell's redirection of output.
    """
    for line in re.sub(r"\\\n\s*", " ", block.text).splitlines():
        found = PROGRAM.match(line.strip())
        if found is None:
            continue
        words = shlex.split(re.sub(r"[\[\]]", " ", found["rest"]), comments=True)
        ends = [at for at, word in enumerate(words) if word in ("|", ">", "&&", "…", "...")]
        yield words[: min(ends, default=len(words))]


def script(page: Path, tested: str) -> tuple[dict[str, str], str]:
    """Return files of a page, and its tested blocks as one bash script; "exit code N" is an expected result."""
    files: dict[str, str] = {}
    lines = ["set -euo pipefail"]
    for block in blocks(page):
        if block.file is not None:
            files[block.file] = block.text
        elif block.tested == tested:
            for line in re.sub(r"\\\n\s*", " ", block.text).splitlines():
                code = re.search(r"# exit code (\d)", line)
                lines += [f"echo {shlex.quote(f'+ {line}')} >&2", _ends_with(line, int(code[1])) if code else line]
    return files, "\n".join(lines) + "\n"


def _ends_with(line: str, code: int) -> str:
    command = line.partition("#")[0]
    return f"ended=0; {command} || ended=$?; test $ended = {code}"


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} (.+)$", prose(page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        number = sum(1 for each in found if each == slug or re.fullmatch(re.escape(slug) + r"-\d+", each))
        found.add(f"{slug}-{number}" if number else slug)
    return frozenset(found)
