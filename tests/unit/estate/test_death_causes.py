"""Explanations of why a process ended, from its exit code and its log, with what to do."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from backend.estate import death_causes
from backend.estate.death_causes import Death, death_of
from backend.estate.processes import ProcessSpec, Ready
from backend.estate.supervisor import PAUSE_FIRST_SECONDS, PAUSE_KILLED_SECONDS, PAUSE_MOST_SECONDS, pauses

HEAP = "heap 256 MB; raise `heap_mb` of cluster-1 in the estate file"

# Last lines that the programs of an estate wrote in trials.
CAUSES = [
    ("Terminating due to java.lang.OutOfMemoryError: Java heap space", f"ended: out of memory; {HEAP}"),
    (
        "java.lang.OutOfMemoryError: Map failed\n\tat java.base/sun.nio.ch.FileChannelImpl.map",
        "ended: the kernel refused another memory map; raise vm.max_map_count (sysctl)",
    ),
    (
        "java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory",
        "ended: the system refused another thread; raise `ulimit -u` or the container's limit of pids",
    ),
    (
        "java.io.IOException: No space left on device\n[main] ERROR Shutdown broker",
        "ended: the disk is full; make room",
    ),
    (
        "java.nio.file.FileSystemException: /data/x: Too many open files",
        "ended: too many open files; raise the limit",
    ),
    (
        "Socket server failed to bind to 127.0.0.1:19091: Address already in use.",
        "ended: another program listens on port 19091; end that program",
    ),
    (
        "Warning: Could not create server TCP listening socket 127.0.0.1:16379: bind: Address already in use",
        "ended: another program listens on port 16379; end that program",
    ),
    (
        "[Errno 98] error while attempting to bind on address ('127.0.0.1', 8000): address already in use",
        "ended: another program listens on port 8000; end that program",
    ),
    (
        'LOG:  could not bind IPv4 address "127.0.0.1": Address already in use',
        "ended: another program listens on its port; end that program",
    ),
    (
        "PostgreSQL 14.9 is too old: Treeline needs 15 or newer and is tested with 15 to 18. Upgrade the database",
        "ended: PostgreSQL 14.9 is too old: Treeline needs 15",
    ),
    ("Unable to read additional data from server", "exit 1"),
]


def death(
    tmp_path: Path, text: str, code: int, *, was_running: bool = True, kills_before: int | None = None
) -> Death:
    log = tmp_path / "broker.log"
    earlier = "No space left on device, said in an earlier run\n"
    log.write_text(earlier + text + "\n")
    spec = ProcessSpec(
        name="kafka:cluster-1:1",
        argv=[],
        ready=Ready(kind="log_line", text="up"),
        directory=str(tmp_path),
        log=str(log),
        if_out_of_memory=HEAP,
    )
    before = death_causes.oom_kills() if kills_before is None else kills_before
    return death_of(spec, code, log_start=len(earlier), oom_kills_before=before, was_running=was_running)


@pytest.mark.parametrize(("text", "cause"), CAUSES, ids=[cause[:40] for _, cause in CAUSES])
def test_the_cause_is_named_with_what_to_do(tmp_path: Path, text: str, cause: str) -> None:
    found = death(tmp_path, text, 1)
    assert found.detail.startswith(cause)
    assert not found.by_others


def test_a_full_disk_is_named_with_its_folder_and_what_is_free(tmp_path: Path) -> None:
    assert f"make room in {tmp_path} (" in death(tmp_path, "No space left on device", 1).detail


@pytest.mark.parametrize(
    ("code", "was_running", "by_others"),
    [
        (-signal.SIGKILL, True, True),
        (-signal.SIGKILL, False, True),  # while it started
        (-signal.SIGTERM, True, True),
        (0, True, True),  # requested to end, and did so in good order
        (143, True, True),  # so does a JVM
        (0, False, False),  # a program that ends at once would otherwise be restarted without a pause
        (1, True, False),
        (-signal.SIGSEGV, True, False),
    ],
)
def test_who_ended_it(tmp_path: Path, code: int, was_running: bool, by_others: bool) -> None:
    assert death(tmp_path, "nothing to say", code, was_running=was_running).by_others is by_others


def test_a_kill_by_the_kernel_is_no_kill_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(death_causes, "oom_kills", lambda: 8)
    found = death(tmp_path, "", -signal.SIGKILL, kills_before=7)
    assert found.detail.startswith("killed by the kernel: the machine is out of memory") and HEAP in found.detail
    assert not found.by_others
    assert death(tmp_path, "", -signal.SIGKILL, kills_before=8).by_others


def test_only_who_dies_by_itself_waits_longer_each_time() -> None:
    kill, fault = Death(detail="killed", by_others=True), Death(detail="exit 1")
    own, waited = PAUSE_FIRST_SECONDS, []
    for one in [kill, fault, kill, fault, kill, *[fault] * 5, kill]:
        pause, own = pauses(one, own)
        waited.append(pause)
    assert waited == [
        PAUSE_KILLED_SECONDS, 0.5, PAUSE_KILLED_SECONDS, 1.0, PAUSE_KILLED_SECONDS,
        2.0, 4.0, 8.0, PAUSE_MOST_SECONDS, PAUSE_MOST_SECONDS, PAUSE_KILLED_SECONDS,
    ]  # fmt: skip
