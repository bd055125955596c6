"""Import rules: the contracts in pyproject.toml, and the stricter rules of the domain."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from tests.project.architecture.sources import PROJECT_ROOT, imported, parsed, python_files, shown

# A decision must not depend on time, chance, or anything outside the process.
IMPURE_MODULES = {
    "asyncio", "concurrent", "ctypes", "glob", "http", "io", "logging", "multiprocessing", "os", "pathlib",
    "platform", "queue", "random", "secrets", "select", "shutil", "signal", "socket", "sqlite3", "ssl",
    "subprocess", "sys", "tempfile", "threading", "time", "urllib", "uuid",
}  # fmt: skip
IMPURE_CALLS = {"now", "utcnow", "today"}
# hash() of a text differs from process to process, id() from run to run.
IMPURE_BUILTINS = {"open", "print", "input", "exec", "eval", "hash", "id", "globals", "__import__"}
DOMAIN = python_files("backend/domain")


def test_every_import_goes_down_the_layers():
    finished = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=PROJECT_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_the_domain_imports_the_pure_part_of_the_standard_library():
    wrong = []
    for path in DOMAIN:
        for name in imported(path):
            top = name.split(".")[0]
            pure = top in sys.stdlib_module_names and top not in IMPURE_MODULES
            if not (name.startswith("backend.domain") if top == "backend" else pure):
                wrong.append(f"{shown(path)} imports {name}")
    assert wrong == []


def test_the_domain_asks_nothing_outside_its_arguments():
    wrong = []
    for path in DOMAIN:
        for node in ast.walk(parsed(path)):
            where = f"{shown(path)}:{getattr(node, 'lineno', 0)}"
            match node:
                case ast.Call(func=ast.Name(id=name)) if name in IMPURE_BUILTINS:
                    wrong.append(f"{where} calls {name}()")
                case ast.Call(func=ast.Attribute(attr=name)) if name in IMPURE_CALLS:
                    wrong.append(f"{where} reads a clock")
                case ast.Global():
                    wrong.append(f"{where} keeps state in its module")
    assert wrong == []


def test_headers_of_records_are_read_in_one_place():
    """A name that is not UTF-8 is a null pointer in the list that confluent-kafka returns."""
    wrong = []
    for path in python_files("backend", "workers", "spark", "client"):
        if shown(path) == "backend/kafka/base/message_headers.py":
            continue
        for node in ast.walk(parsed(path)):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="message" | "record"), attr="headers")):
                    wrong.append(f"{shown(path)}:{node.lineno}")
    assert wrong == []


def test_only_the_dispatcher_appends():
    """Seeding bypasses it for benches and restores; the store and its twin define what appending is."""
    allowed = {
        "backend/dispatch.py",
        "backend/eventlog/store.py",
        "backend/eventlog/memory.py",
        "backend/eventlog/bulk_load.py",
    }
    for path in python_files("backend", "workers"):
        if shown(path) in allowed:
            continue
        reaches = imported(path) & {
            "backend.eventlog.store.move_head",
            "backend.eventlog.recorded.chain",
            "backend.eventlog.bulk_load.bulk_load",
            "backend.eventlog.tables.event_log_head.update",
        }
        assert not reaches, f"{shown(path)} goes around the dispatcher by {reaches}"
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
                given = {keyword.arg for keyword in node.keywords}
                assert "metadata" not in given, f"{shown(path)}:{node.lineno} appends to the event log"
