"""Explain why a process of the estate ended and what to do, from its exit code and its last log lines.

The explanation is shown by `treeline status` and on the cluster's page, so it quotes only ports and paths of a
log, never a whole line of it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

from backend.estate.processes import ProcessSpec

READ_BYTES = 32 * 1024
"""Bytes read from the end of the log of a process's last run; earlier lines are not the cause."""

_KERNEL_OOM = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_PORT_TAKEN = re.compile(r"^.*address already in use", re.IGNORECASE | re.MULTILINE)
_REFUSAL = re.compile(r"PostgreSQL [0-9.]+ is too old: [^\n]+")
_ADDRESS = re.compile(r"127\.0\.0\.1['\"]?[:,] ?(\d+)")
_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})


@dataclass(frozen=True, kw_only=True)
class Death:
    """Explained end of a process; `by_others`: another program ended it, so the process itself is not at fault."""

    detail: str
    by_others: bool = False


def oom_kills() -> int:
    """Return how many processes this kernel has killed for lack of memory; 0 if it does not report that."""
    with contextlib.suppress(OSError):
        if found := _KERNEL_OOM.search(Path("/proc/vmstat").read_text()):
            return int(found[1])
    return 0


def death_of(spec: ProcessSpec, code: int, *, log_start: int, oom_kills_before: int, was_running: bool) -> Death:
    """Explain the end of a process with this exit code, which is negative for a signal.

    Its last run logged from byte `log_start` on; the kernel had killed `oom_kills_before` processes when it began.
    `was_running`: the process had become ready, so another program requested an orderly end.
    """
    if code == -signal.SIGKILL and oom_kills() > oom_kills_before:
        return Death(
            detail="killed by the kernel: the machine is out of memory; stop something, declare fewer brokers, or "
            f"give the machine more{_and(spec.if_out_of_memory)}"
        )
    how = f"exit {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
    if -code in _OUTSIDE:
        return Death(detail=how, by_others=True)
    cause = _cause(spec, _logged(Path(spec.log), log_start))
    # A program that handles SIGTERM ends with 0, a JVM with 128 and the signal's number.
    orderly = code == 0 or code - 128 in _OUTSIDE
    return Death(detail=cause or how, by_others=orderly and was_running and cause is None)


def _cause(spec: ProcessSpec, text: str) -> str | None:
    """Return the first cause that the log names, in the order of explanatory power; None if no known one."""
    if "Map failed" in text:
        return "ended: the kernel refused another memory map; raise vm.max_map_count (sysctl)"
    if "unable to create native thread" in text or "can't start new thread" in text:
        return "ended: the system refused another thread; raise `ulimit -u` or the container's limit of pids"
    if (refusal := _REFUSAL.search(text)) is not None:
        return f"ended: {refusal[0]}"
    if "OutOfMemoryError" in text or "MemoryError" in text or "Cannot allocate memory" in text:
        return f"ended: out of memory{_and(spec.if_out_of_memory)}"
    if "No space left on device" in text or "Disk quota exceeded" in text:
        return f"ended: the disk is full; make room in {spec.directory} ({_free(spec.directory)} free)"
    if "Too many open files" in text:
        return "ended: too many open files; raise the limit (`ulimit -n`) and start the estate again"
    if (line := _PORT_TAKEN.search(text)) is not None:
        port = _ADDRESS.search(line[0])
        where = f"port {port[1]}" if port else "its port"
        return f"ended: another program listens on {where}; end that program; the estate then continues by itself"
    return None


def _logged(log: Path, start: int) -> str:
    """Return the end of the last run's log; the file may have been cut to its bound meanwhile."""
    with contextlib.suppress(OSError), log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(start if start <= size else 0, size - READ_BYTES))
        return file.read().decode(errors="replace")
    return ""


def _and(advice: str) -> str:
    return f"; {advice}" if advice else ""


def _free(folder: str) -> str:
    try:
        return f"{shutil.disk_usage(folder).free / 1e6:.0f} MB"
    except OSError:
        return "nothing known to be"
