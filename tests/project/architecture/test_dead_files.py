"""Every module is reached from an entry point: a program, a server, a worker, a migration, a bench."""

from __future__ import annotations

import ast
from functools import cache

from tests.project.architecture.sources import PACKAGES, imported, module_name, parsed, python_files, shown

ENTRIES = {
    "backend.cli", "backend.asgi", "backend.kafka.copy.native.build", "workers.app", "migrations.env",
    "spark.jobs.offset_timestamps", "spark.jobs.replica_placement",
}  # fmt: skip
# Kept although nothing starts them, each with its reason.
FOR_TESTS = {"backend.eventlog.memory": "the event log's twin, on which simulations run"}

MODULES = {module_name(path): path for path in python_files(*PACKAGES)}


def reached_from(names: set[str]) -> set[str]:
    reached: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in reached or name not in MODULES:
            continue
        reached.add(name)
        # Importing a module imports the packages around it.
        waiting += [name.rpartition(".")[0], *references(name)]
    return reached


@cache
def references(name: str) -> set[str]:
    """Return the modules that a module imports, or names in a text: a program to start, a worker's app."""
    found = set(imported(MODULES[name]))
    for node in ast.walk(parsed(MODULES[name])):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = node.value.partition(":")[0]
            found |= {named, f"{named}.__main__"}
    return found & MODULES.keys()


def test_no_module_is_dead():
    entries = set(ENTRIES)
    entries |= {name for name in MODULES if name.startswith("migrations.versions.")}
    for path in python_files("bench"):
        entries |= imported(path) & MODULES.keys()
    reached = reached_from(entries | FOR_TESTS.keys())
    # An empty __init__ only makes a folder a package.
    dead = {name for name in MODULES if name not in reached and MODULES[name].read_text().strip()}
    assert not dead, f"reached from nothing: {sorted(shown(MODULES[name]) for name in dead)}"


def test_no_module_of_the_client_package_is_dead():
    modules = {f"treeline_client.{path.stem}": path for path in python_files("client/treeline_client")}
    used = {name for path in modules.values() for name in imported(path) if modules.get(name) != path}
    dead = {name for name in modules if name not in used and not name.endswith(".__init__")}
    # The API of the client package is imported by its __init__, and so used.
    assert not dead


def test_what_is_kept_for_tests_is_used_by_tests_only():
    for name in FOR_TESTS:
        assert any(name in imported(path) for path in python_files("tests")), f"{name} is dead"
        assert name not in reached_from(ENTRIES), f"{name} is started: it needs no exception"
