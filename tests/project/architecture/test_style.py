"""Style and types, as `make lint` checks them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.project.architecture.sources import PROJECT_ROOT, python_files

CONFIGURED = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["files"]
# mypy refuses a folder that has no module yet.
TYPED = [folder for folder in CONFIGURED if python_files(folder)]


@pytest.mark.parametrize(
    "command",
    [
        ("ruff", "check", "."),
        ("ruff", "format", "--check", "."),
        ("mypy", *TYPED),
    ],
    ids=" ".join,
)
def test_the_checkers_find_nothing(command):
    program, *arguments = command
    finished = subprocess.run(
        [Path(sys.executable).parent / program, *arguments],
        cwd=PROJECT_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
