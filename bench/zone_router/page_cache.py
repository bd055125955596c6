"""Fill memory with page cache, as on a machine with a long uptime.

A virtual machine that returns free memory to its host pays for every page that it takes again: copying into new
pages of the page cache took 2.8 CPU seconds a GB on the machine of `docs/benchmarks.md`, and 0.3 where pages had
been used before. That is the host's price of memory, not a property of the measured program.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

_PIECE_BYTES = 4 << 20
_LEFT_FREE_BYTES = 512 << 20
_PRICED_PIECES = 25


def fill(folder: Path) -> None:
    """Turn free memory into reclaimable page cache by reading a sparse file."""
    holes = folder / "holes"
    size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with holes.open("wb") as file:
        file.truncate(size)
    piece, at = bytearray(_PIECE_BYTES), 0
    file_number = os.open(holes, os.O_RDONLY)
    try:
        while at < size and _free_bytes() > _LEFT_FREE_BYTES:
            at += os.preadv(file_number, [piece], at)
    finally:
        os.close(file_number)


def price(folder: Path) -> float:
    """Return the CPU seconds for writing a GB into new files."""
    piece = os.urandom(_PIECE_BYTES)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        before = time.process_time()
        for number in range(_PRICED_PIECES):
            (Path(place) / str(number)).write_bytes(piece)
        return (time.process_time() - before) / (_PRICED_PIECES * _PIECE_BYTES) * 1e9


def _free_bytes() -> int:
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemFree:"))
