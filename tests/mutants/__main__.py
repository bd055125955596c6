"""Run mutants: `python -m tests.mutants [WORD ...] [--at-once N]`; without words, all of them.

Each mutant is applied to a copy of the checkout, uncommitted changes included, and the tests that it names run on
the copy. Exit code 1 if one survives, 2 if one cannot be run.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.mutants.patches import PROJECT, Mutant, read_all

_TESTS_FAILED = 1
"""pytest's exit code; other ones mean that tests could not be run at all."""
_STOPPED = 2
"""pytest's exit code after Ctrl-C."""
_LIMIT_S = 600
_NATIVE = "backend/kafka/copy/native/"


class Fate(StrEnum):
    """The result of running a mutant."""

    CAUGHT = "caught"
    SURVIVED = "SURVIVED"
    NOT_RUN = "NOT RUN"


@dataclass(frozen=True)
class Outcome:
    """The fate of one mutant. `words` name the test that failed, or say why none ran."""

    fate: Fate
    words: str


class Copy:
    """Holds a copy of the checkout with its compiled modules. One mutant at a time changes it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        listed = _git(PROJECT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").stdout
        for name in filter(None, listed.split("\0")):
            if (PROJECT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(PROJECT / name, folder / name)
        self._copy_native()
        if (modules := PROJECT / "frontend" / "node_modules").exists():
            (folder / "frontend" / "node_modules").symlink_to(modules)
        # Some tests ask git which files there are.
        _git(folder, "init", "--quiet")
        _git(folder, "add", "--all")

    def run(self, mutant: Mutant) -> Outcome:
        """Apply it, run its tests, and take it back."""
        applied = _git(self._folder, "apply", "--unidiff-zero", str(mutant.path))
        if applied.returncode != 0:
            return Outcome(Fate.NOT_RUN, f"does not apply: {applied.stderr.strip()}")
        is_native = any(name.startswith(_NATIVE) for name in mutant.changes)
        try:
            if is_native:
                self._python("-m", "backend.kafka.copy.native.build")
            return self._tested(mutant)
        finally:
            _git(self._folder, "apply", "--unidiff-zero", "--reverse", str(mutant.path))
            if is_native:
                self._copy_native()

    def _tested(self, mutant: Mutant) -> Outcome:
        ran = self._python(
            "-m", "pytest", "-q", "-m", "not nightly", "-x", "-p", "no:cacheprovider", *mutant.caught_by
        )
        lines = ran.stdout.strip().splitlines() or ["no output"]
        failed = next((line for line in lines if line.startswith("FAILED ")), None)
        if ran.returncode == 0:
            return Outcome(Fate.SURVIVED, lines[-1])
        if ran.returncode == _TESTS_FAILED and failed is not None:
            return Outcome(Fate.CAUGHT, failed.removeprefix("FAILED "))
        # A fixture that failed shows nothing about the mutant; its line says which one, and why.
        said = next((line for line in lines if line.startswith("ERROR ")), lines[-1])
        return Outcome(Fate.NOT_RUN, f"pytest ended with {ran.returncode}: {said}")

    def _python(self, *words: str) -> subprocess.CompletedProcess[str]:
        # The copy's modules come before those of the checkout, to which the environment's installation points.
        outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environment = {**outside, "PYTHONPATH": str(self._folder)}
        command = [sys.executable, *words]
        with subprocess.Popen(
            command, cwd=self._folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            try:
                output, _ = process.communicate(timeout=_LIMIT_S)
            except subprocess.TimeoutExpired:
                # As by Ctrl-C, so that its fixtures stop what they have started.
                process.send_signal(signal.SIGINT)
                output, _ = process.communicate()
                output += f"\nit did not end within {_LIMIT_S} s"
                return subprocess.CompletedProcess(command, _STOPPED, output)
        return subprocess.CompletedProcess(command, process.returncode, output)

    def _copy_native(self) -> None:
        for built in (PROJECT / _NATIVE).glob("*.so"):
            shutil.copy2(built, self._folder / _NATIVE)


def _git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)


def main() -> int:
    """Run what the command line says; print a line for each mutant as it ends."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Run mutants of the product.")
    parser.add_argument("words", nargs="*", help="of their names: run only those that have one of them")
    parser.add_argument("--at-once", type=int, default=2, help="how many run side by side (2)")
    given = parser.parse_args()
    chosen = [each for each in read_all() if not given.words or any(word in each.name for word in given.words)]
    if not chosen:
        parser.error(f"no mutant has one of these words in its name: {' '.join(given.words)}")
    return _run(chosen, given.at_once)


def _run(chosen: Sequence[Mutant], at_once: int) -> int:
    fates = dict.fromkeys(Fate, 0)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(at_once) as pool:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for number in range(at_once):
            copies.put(Copy(_made(Path(folder) / str(number))))

        def one(mutant: Mutant) -> tuple[Mutant, Outcome, float]:
            copy, began = copies.get(), time.monotonic()
            try:
                return mutant, copy.run(mutant), time.monotonic() - began
            finally:
                copies.put(copy)

        for ended in as_completed([pool.submit(one, each) for each in chosen]):
            mutant, outcome, seconds = ended.result()
            fates[outcome.fate] += 1
            _say(f"{outcome.fate:9} {seconds:5.0f} s  {mutant.name}: {outcome.words}")
    _say(", ".join(f"{count} {fate}" for fate, count in fates.items()))
    if fates[Fate.NOT_RUN]:
        return 2
    return 1 if fates[Fate.SURVIVED] else 0


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - a program's output


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    sys.exit(main())
