"""The project's own files, for the house rules."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("backend", "workers", "spark", "migrations")
PYTHON_FOLDERS = (*PACKAGES, "client", "spark", "bench", "docs", "tests")
NOT_OURS = {"node_modules", "__pycache__"}


@cache
def python_files(*folders: str) -> tuple[Path, ...]:
    """Return every Python file below the folders, or of the whole project."""
    found = [path for folder in folders or PYTHON_FOLDERS for path in (PROJECT_ROOT / folder).rglob("*.py")]
    return tuple(sorted(path for path in found if not NOT_OURS & set(path.parts)))


@cache
def text_of(path: Path) -> str:
    return path.read_text()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(text_of(path), str(path))


def shown(path: Path) -> str:
    return str(path.relative_to(PROJECT_ROOT))


def module_name(path: Path) -> str:
    """Return `backend.api` for backend/api/__init__.py."""
    parts = path.relative_to(PROJECT_ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imported(path: Path) -> frozenset[str]:
    """Return the names of everything that a file imports, at its top or inside functions: modules and members."""
    names: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)
