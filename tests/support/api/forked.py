"""Runs of the program `treeline` in processes of their own that start with its modules imported.

Hundreds of tests run it, and importing takes longer than most of their commands. A server imports it, once for a
process of tests, and forks for each run (`multiprocessing`, start method "forkserver").
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.support.api.forked", "backend.cli"])


def run(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], given: str
) -> subprocess.CompletedProcess[str]:
    """Run the program to its end, like `subprocess.run`."""
    with tempfile.TemporaryDirectory() as files:
        asked, out, err = (Path(files) / name for name in ("in", "out", "err"))
        asked.write_text(given)
        process = _CONTEXT.Process(
            target=_run, args=(list(words), str(folder), dict(environment), str(asked), str(out), str(err))
        )
        process.start()
        process.join()
        code = process.exitcode
        assert code is not None
        return subprocess.CompletedProcess(list(words), code, out.read_text(), err.read_text())


def _run(words: list[str], folder: str, environment: dict[str, str], asked: str, out: str, err: str) -> None:
    """Run the program in the forked process."""
    for number, path in enumerate((asked, out, err)):
        opened = os.open(path, os.O_RDONLY if number == 0 else os.O_CREAT | os.O_WRONLY, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = os.fdopen(0)  # multiprocessing has closed the original one
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["treeline", *words]
    from backend.cli import main

    main()
