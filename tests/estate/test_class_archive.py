"""The brokers' class archive: made once, also where several estates boot at the same time."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from backend.estate.class_archive import ensure_class_archive
from backend.estate.home import alone
from backend.estate.jars import java_version
from tests.eventually import eventually


def test_who_finds_it_being_made_waits_for_it(tmp_path: Path) -> None:
    """Brokers that start without it take several times the CPU time, just when other estates boot as well."""
    archive, lock = tmp_path / f"broker-java-{java_version()}.jsa", tmp_path / "training.lock"
    made: list[str] = []
    with ThreadPoolExecutor(1) as threads:
        with alone(lock):
            found = threads.submit(ensure_class_archive, tmp_path, made.append)
            eventually(lambda: found.done() or is_waited_for(lock), "it waits")
            archive.touch()
        assert found.result() == archive
    assert made == [], "nobody makes it a second time"


def is_waited_for(lock: Path) -> bool:
    """Whether somebody waits for the lock on a file."""
    inode = f":{lock.stat().st_ino} "
    waiting = [line for line in Path("/proc/locks").read_text().splitlines() if " -> " in line]
    return any("FLOCK" in line and inode in line and str(os.getpid()) in line.split() for line in waiting)
