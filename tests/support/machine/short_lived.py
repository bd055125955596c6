"""Folder for files that are created and deleted by the thousand: in memory, if there is room for them.

Each test's database has some 700 files. ext4 without a journal reuses no inode for minutes after its deletion, and
checks each of those in turn: creating a database took 40 ms at first, and 170 ms after 150 of them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 << 30
"""Minimum free memory in bytes; if there is less, it is left to the programs under test."""
_PREFIX = "treeline-tests-"


@contextmanager
def short_lived(usual: Path, memory: Path = MEMORY, room_bytes: int = ROOM_BYTES) -> Iterator[Path]:
    """Yield a folder in memory that is deleted at the end, or `usual`, which is kept."""
    if not _has_room(memory, room_bytes):
        yield usual
        return
    for left in memory.glob(f"{_PREFIX}*"):
        if not _runs(left.name.removeprefix(_PREFIX).partition("-")[0]):  # left by a killed test run
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(
        prefix=f"{_PREFIX}{os.getpid()}-", dir=memory, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


def _has_room(memory: Path, room_bytes: int) -> bool:
    try:
        return os.access(memory, os.W_OK) and shutil.disk_usage(memory).free >= room_bytes
    except OSError:  # not every system has it
        return False


def _runs(pid: str) -> bool:
    return not pid.isdigit() or Path("/proc", pid).exists()
