"""Processes at the level of the kernel: starting, signalling, collecting, and leaving no orphan.

Three safety nets, because each has a hole:
1. A child gets a parent-death signal: it dies with the supervisor, also when that is killed with -9. The signal
does
   not reach grandchildren, such as the pool processes of a Celery worker.
2. The guardian is the subreaper of the supervisor's tree: it ends whatever is left when the supervisor is gone.
3. Every process carries `MARKER` in its environment: if the guardian was killed as well, the next `up` or `down`
   finds the rest by it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from backend.estate.home import Home
from backend.estate.processes import MARKER, ProcessSpec
from backend.parent_exit import exit_with_parent

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, instead of process 1."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def spawn(spec: ProcessSpec) -> int:
    """Start a process in its own session, with output appended to its log; return its pid."""
    log = Path(spec.log)
    parent = os.getpid()

    def in_child() -> None:
        # PostgreSQL ends its own children on SIGQUIT, but cannot after SIGKILL.
        exit_with_parent(signal.SIGQUIT if spec.name == "postgres" else signal.SIGKILL)
        if os.getppid() != parent:  # the parent ended before the request was made
            os._exit(1)

    with log.open("ab") as output:
        process = subprocess.Popen(
            spec.argv,
            cwd=spec.directory,
            env={**os.environ, **spec.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=in_child,
        )
    # The supervisor collects by wait(-1); Popen must not warn about, or poll, a child that is still alive.
    process.returncode = 0
    return process.pid


def send(pid: int | None, number: signal.Signals) -> None:
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def end_group(pid: int) -> None:
    """Kill the whole process group that the process of this pid leads or led."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def ended() -> Iterator[tuple[int, int]]:
    """Yield pid and wait status of every child that has ended since the last call."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


class Wakeup:
    """A socket that becomes readable when a signal arrives, so that the loop can sleep until then."""

    NUMBERS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def __enter__(self) -> Wakeup:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        for number in self.NUMBERS:
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        self._reader.close()
        self._writer.close()

    def fileno(self) -> int:
        return self._reader.fileno()

    def drain(self) -> set[int]:
        """Return the numbers of the signals that have arrived."""
        try:
            return set(self._reader.recv(4096))
        except BlockingIOError:
            return set()


def guard(supervisor: int, home: Home) -> None:
    """Wait for the supervisor's end, then end everything of this home that is left."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _: send(supervisor, signal.Signals(received)))
    while True:
        pid, _ = os.waitpid(-1, 0)
        if pid == supervisor:
            break
    end_leftovers(home)


def marked(home: Home) -> list[int]:
    """Return the pids of the living processes that carry this home's marker, except the caller."""
    wanted = f"{MARKER}={home.path}".encode()
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if wanted in Path(entry.path, "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def end_leftovers(home: Home) -> list[int]:
    """Kill every process that carries this home's marker; return their pids when none is left."""
    found: set[int] = set()
    while remaining := marked(home):
        found.update(remaining)
        for pid in remaining:
            send(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        time.sleep(0.02)
    return sorted(found)


def bound_logs(folder: Path, most_bytes: int) -> None:
    """Keep a log from filling the disk: a file that is too long becomes NAME.1, and goes on empty.

    Copied and truncated instead of renamed, because the processes hold their log open; they append, so that the
    next line lands at the new end.
    """
    for entry in os.scandir(folder):
        if entry.name.endswith(".log") and entry.stat().st_size > most_bytes:
            shutil.copyfile(entry.path, entry.path + ".1")
            os.truncate(entry.path, 0)
