"""Progress of a command, on stderr: one line that changes in a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from types import TracebackType

import typer

EVERY_SECONDS = 2.0


class Progress:
    """Progress reporter: `with Progress("declared", 500) as p: p.reached(120)`; silent for work that is quick."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total, self._done = what, total, 0
        self._began = self._told = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._shown = False

    def __enter__(self) -> Progress:
        return self

    def reached(self, done: int, total: int | None = None) -> None:
        """Report how many are done, and `total` if that has changed."""
        self._done, self._total = done, self._total if total is None else total
        if time.monotonic() - self._told >= (EVERY_SECONDS / 10 if self._terminal else EVERY_SECONDS):
            self._tell()

    def _tell(self) -> None:
        self._told, self._shown = time.monotonic(), True
        line = f"{self._what}: {self._done:,} of {self._total:,}, {self._told - self._began:.0f} s"
        typer.echo(f"\r{line}\x1b[K" if self._terminal else line, err=True, nl=not self._terminal)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Print the final count if any progress was printed."""
        if self._shown:
            self._tell()
            if self._terminal:
                typer.echo(err=True)
