"""Memory of a process and all its descendants."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType

import psutil

_EVERY_SECONDS = 0.5


class PeakMemory:
    """Peak memory of a process tree while the block runs: the sum of PSS, which counts shared pages once.

    It is sampled twice a second. `bytes` is the sum; `parts` is its share by program.
    """

    def __init__(self, process: int) -> None:
        self.bytes = 0
        self.parts: dict[str, int] = {}
        self._root = psutil.Process(process)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_EVERY_SECONDS):
            parts = self._look()
            if sum(parts.values()) > self.bytes:
                self.bytes, self.parts = sum(parts.values()), parts

    def _look(self) -> dict[str, int]:
        found: dict[str, int] = {}
        try:
            tree = [self._root, *self._root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return found
        for process in tree:
            try:
                name, rows = process.name(), Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            except (psutil.NoSuchProcess, OSError):
                continue  # it has ended meanwhile
            kilobytes = sum(int(row.split()[1]) for row in rows.splitlines() if row.startswith("Pss:"))
            found[name] = found.get(name, 0) + kilobytes * 1024
        return found
