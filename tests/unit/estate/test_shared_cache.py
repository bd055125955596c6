"""Files that all estates share, Kafka's jars and the class archive: made once, also if several boot at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from backend.estate.class_archive import ensure_class_archive
from backend.estate.home import exclusive_lock
from backend.estate.programs.jars import KAFKA_VERSION, ensure_jars, java_version
from tests.eventually import eventually

Progress = Callable[[str], None]


def test_who_finds_the_archive_being_made_waits_for_it(tmp_path: Path) -> None:
    """Brokers that start without it take several times the CPU time, while other estates boot as well."""
    archive = tmp_path / f"broker-java-{java_version()}.jsa"
    found = beside(tmp_path / "training.lock", lambda told: ensure_class_archive(tmp_path, told), archive.touch)
    assert found == archive


def test_who_finds_the_jars_on_their_way_waits_for_them(tmp_path: Path) -> None:
    jars = tmp_path / f"kafka-{KAFKA_VERSION}"
    assert beside(tmp_path / "kafka.lock", lambda told: ensure_jars(tmp_path, told), jars.mkdir) == jars


def beside(lock: Path, ensure: Callable[[Progress], Path | None], made: Callable[[], None]) -> Path | None:
    """Return the result of `ensure` while another process holds the lock and then has `made` the file.

    Fails if the file is made a second time.
    """
    begun: list[str] = []
    with ThreadPoolExecutor(1) as threads:
        with exclusive_lock(lock):
            found = threads.submit(ensure, begun.append)
            eventually(lambda: found.done() or is_waited_for(lock), "it waits")
            made()
        assert found.result() is not None
    assert begun == []
    return found.result()


def is_waited_for(lock: Path) -> bool:
    """Return whether this process waits for the lock on a file."""
    inode = f":{lock.stat().st_ino} "
    waiting = [line for line in Path("/proc/locks").read_text().splitlines() if " -> " in line]
    return any("FLOCK" in line and inode in line and str(os.getpid()) in line.split() for line in waiting)
