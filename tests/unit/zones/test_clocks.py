"""Clocks of nodes may differ: no code of the zone router reads a wall clock."""

from __future__ import annotations

import ast
from pathlib import Path

from backend.settings import PROJECT_ROOT

CLOCKS = {"time", "datetime", "calendar", "zoneinfo"}


def test_no_module_of_the_zone_router_reads_a_time_of_day():
    modules = list(Path(PROJECT_ROOT, "workers", "zone_router").rglob("*.py"))
    assert len(modules) > 20
    for module in modules:
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            assert not CLOCKS & {name.partition(".")[0] for name in names}, module
