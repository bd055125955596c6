"""The program `treeline` as processes of its own, against a control plane in this one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from backend.settings import PROJECT_ROOT
from tests.support.api.forked import run
from tests.support.api.rest import TOKEN
from tests.support.console.consoles import serve_here

WORDS = [sys.executable, "-m", "backend.cli"]


@dataclass(frozen=True)
class Program:
    """The program, run in a folder of its own, with a home and a configuration there."""

    url: str
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("TREELINE_")}
        ours.pop("COLUMNS", None)
        known = {"PYTHONPATH": str(PROJECT_ROOT), "XDG_CONFIG_HOME": str(self.folder / "config")}
        return ours | known | {"TREELINE_HOME": str(self.folder / "home")} | self.control_plane

    @property
    def control_plane(self) -> dict[str, str]:
        return {"TREELINE_URL": self.url, "TREELINE_TOKEN": TOKEN}

    @property
    def contexts(self) -> Path:
        return self.folder / "config" / "treeline" / "contexts.yaml"

    def start(self, *words: str, **changed: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*WORDS, *words],
            cwd=self.folder,
            env=_without_empty(self.environment | changed),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *words: str, given: str = "", **changed: str) -> subprocess.CompletedProcess[str]:
        """Run the program to its end.

        Variables that are changed to an empty text are removed from the environment.
        """
        return run(words, self.folder, _without_empty(self.environment | changed), given)

    def with_empty(self, *words: str, **changed: str) -> subprocess.CompletedProcess[str]:
        """Run the program with empty variables in its environment instead of removing them."""
        return run(words, self.folder, self.environment | changed, "")


def _without_empty(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if value or not name.startswith("TREELINE_")}


@contextmanager
def program_of(database_url: str, folder: Path) -> Iterator[Program]:
    """Yield the program and a control plane on this database, in a thread of this process."""
    with serve_here(database_url) as console:
        yield Program(console.url, folder)
