"""Detection of ended lease holders on this machine, so that their tasks move before the leases expire.

Each worker process locks a file of its own name in the home's `run/holders`. The kernel releases the lock however
the process ends, and keeps it for one that is stopped or starved: whoever gets the lock knows that the holder is
gone for good. A holder without a file is on another machine or cannot write there; its leases expire as usual.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Engine

from backend.queries.base.observed import leases, shifts


def mark_alive(home: Path, holder: str) -> None:
    """Lock this process's file until it ends; if the home is not writable, leases expire as usual."""
    folder = _folder(home)
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / holder, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # kept open on purpose


def free_ended(engine: Engine, home: Path) -> list[str]:
    """Release the leases of every ended holder of this home; return the holders. Raises DomainError.

    Several processes may do so at the same time; the leases' epochs decide which gets them next.
    """
    found = []
    for path in _ended(_folder(home)):
        with engine.begin() as connection:
            connection.execute(sa.delete(shifts).where(shifts.c.holder == path.name))
            connection.execute(sa.update(leases).where(leases.c.holder == path.name).values(holder=None))
        # Last: if the database is unavailable, the next round finds the file again.
        path.unlink(missing_ok=True)
        found.append(path.name)
    return found


def _ended(folder: Path) -> Iterator[Path]:
    """Yield the files whose lock is free; each stays locked by the caller while it is processed."""
    with contextlib.suppress(FileNotFoundError):
        for path in sorted(folder.iterdir()):
            with contextlib.suppress(OSError):  # gone meanwhile, or its holder lives
                descriptor = os.open(path, os.O_RDWR)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield path
                finally:
                    os.close(descriptor)


def _folder(home: Path) -> Path:
    return home / "run" / "holders"
