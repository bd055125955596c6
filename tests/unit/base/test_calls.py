"""Calls of the REST API in messages, as the command line and pages say them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.commands.shell.rest_hints import in_commands
from backend.domain.base.calls import said_otherwise
from backend.settings import PROJECT_ROOT
from backend.web.frame.rest_links import with_links

ID = "X1"
# What says it is raised of these; modules of pages and commands say what they say in their own words.
TO_CLIENTS = "DELETE /discovery/clients"
"""Said to programs that ask discovery, by neither pages nor commands."""
SPEAKING = ("api", "changes", "domain", "queries", "switching", "cluster_requests", "placement", "registry")


def texts(tree: ast.AST) -> Iterator[str]:
    """Return all messages in a module: no docstrings, and no descriptions of the API."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.keyword) and node.arg == "description":
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else ID for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        else:
            yield from texts(node)


def advised() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder in SPEAKING:
        for file in (PROJECT_ROOT / "backend" / folder).rglob("*.py"):
            for text in texts(ast.parse(file.read_text())):
                if said_otherwise(text, [(".*", "")]) != text and TO_CLIENTS not in text:
                    found[text] = file
    return found


def test_every_call_that_a_message_advises_is_known_to_commands_and_pages() -> None:
    found = advised()
    assert len(found) > 15 and any("PUT /trees/main/primary" in text for text in found)
    for text, file in found.items():
        for said in (in_commands(text), str(with_links(text))):
            assert said_otherwise(said, [(".*", "")]) == said, f"{file}: {said}"


@pytest.mark.parametrize(
    ("text", "command", "page"),
    [
        (
            "there is no cluster 'x'; GET /clusters lists them",
            "there is no cluster 'x'; `treeline get clusters` lists them",
            'there is no cluster &#39;x&#39;; the page <a href="/clusters">Clusters</a> lists them',
        ),
        (
            "move it with PUT /trees/main/primary, then",
            "move it with `treeline schemas move-primary`, then",
            'move it with the page <a href="/tree/-primary">Move primary</a>, then',
        ),
        (
            "POST /switches/20261127-a/abort takes it back",
            "`treeline switch abort 20261127-a` takes it back",
            'the page <a href="/switches/20261127-a">of switch 20261127-a</a> takes it back',
        ),
        (*("GET /nothing, <b>GET /clusters/c1</b>",) * 2, "GET /nothing, &lt;b&gt;GET /clusters/c1&lt;/b&gt;"),
    ],
)
def test_calls_in_words(text: str, command: str, page: str) -> None:
    assert in_commands(text) == command
    assert str(with_links(text)) == page
