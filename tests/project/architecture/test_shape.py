"""Sizes and names: files small enough to keep in mind, and named after their purpose."""

from __future__ import annotations

import ast
import json
import re

from tests.project.architecture.sources import NOT_OURS, PROJECT_ROOT, parsed, python_files, shown, text_of

MODULE_LINES = 400
FUNCTION_LINES = 70
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "tools"}


def test_modules_and_functions_are_short():
    long = []
    for path in python_files():
        lines = len(text_of(path).splitlines())
        if lines >= MODULE_LINES:
            long.append(f"{shown(path)} has {lines} lines")
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length >= FUNCTION_LINES:
                    long.append(f"{shown(path)}:{node.lineno} {node.name} has {length} lines")
    assert long == []


def test_no_module_is_named_after_nothing():
    named = [path.relative_to(PROJECT_ROOT).with_suffix("") for path in python_files()]
    assert [str(path) for path in named if EMPTY_NAMES & set(path.parts)] == []


def test_every_module_says_what_it_is_for():
    modules = python_files("backend", "workers", "spark", "client")
    assert [shown(path) for path in modules if text_of(path).strip() and not ast.get_docstring(parsed(path))] == []


def test_lock_files_carry_no_registry_addresses():
    """A lock file that names a registry ties every later install to it."""
    for path in sorted((PROJECT_ROOT / "requirements").iterdir()):
        text = path.read_text()
        assert "://" not in text, f"{shown(path)} names an address"
        assert not re.search(r"^\s*--?(index-url|extra-index-url|find-links|i\b|f\b)", text, re.MULTILINE)
    for path in PROJECT_ROOT.glob("*/package-lock.json"):
        assert '"resolved"' not in path.read_text(), f"{shown(path)} names where packages came from"
        assert not any(place.get("link") for place in json.loads(path.read_text())["packages"].values())
    assert not list(PROJECT_ROOT.glob("uv.lock"))


def test_every_requirement_is_pinned_with_its_hashes():
    for path in sorted((PROJECT_ROOT / "requirements").glob("*.txt")):
        text = path.read_text().replace("\\\n", " ")
        for line in text.splitlines():
            if line.strip() and not line.strip().startswith("#"):
                assert re.match(r"^[a-z0-9._-]+(\[[a-z0-9,_-]+\])?==\S+ .*--hash=sha256:", line), line


def test_every_template_is_used():
    templates = [
        path
        for path in (PROJECT_ROOT / "frontend").rglob("*.html*")
        if path.is_file() and not NOT_OURS & set(path.parts)
    ]
    readers = {path: text_of(path) for path in (*templates, *python_files("backend"))}
    for template in templates:
        used = any(template.name in text for path, text in readers.items() if path != template)
        assert used, f"{shown(template)} is used by nothing"
