"""Ports on 127.0.0.1: the preferred one if it is free, else another; the same again at the next start.

Which ports are "taken"? When `up` checks, no process of its own home runs any more (it holds the supervisor's lock
and has ended leftovers by their marker), so any listener is foreign, possibly another home's estate; it is left
alone, and the estate takes another port.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import socket
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from backend.estate.processes import write_private

# Below the range from which the kernel takes ports for outgoing connections (32768 on): otherwise a client's
# connection could occupy a broker's port while that broker restarts.
SPARE = range(20000, 32000)
_ENDED = ("Z", "X")
"""States of processes that have ended and only wait to be collected."""


def is_free(port: int) -> bool:
    """Return whether a server could listen on the port; TIME_WAIT counts as free, as servers reuse such ports."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count: int, taken: Iterable[int] = ()) -> list[int]:
    """Reserve distinct free ports for this process, for as long as it lives.

    Drawn at random, so that two estates that start together differ. Raises OSError if there are not so many.
    """
    avoid = set(taken)
    found: list[int] = []
    drawing = _in_random_order(SPARE)
    while len(found) < count:
        port = next(drawing, None)
        if port is None:
            raise OSError(f"{len(found)} of the ports from {SPARE.start} to {SPARE.stop - 1} are free, no {count}")
        if port not in avoid and is_free(port) and _claim(port):
            found.append(port)
    return found


def _in_random_order(ports: range) -> Iterator[int]:
    """Yield each port once. The first one comes at once: a sample of all of them takes as long as claiming ten."""
    tried: set[int] = set()
    while len(tried) < len(ports) // 2:
        port = random.choice(ports)
        if port not in tried:
            tried.add(port)
            yield port
    left = [port for port in ports if port not in tried]
    yield from random.sample(left, len(left))


def hold(ports: Iterable[int]) -> None:
    """Transfer these ports to this process, for as long as it lives; the process that drew them hands them on."""
    for port in ports:
        with _claim_on(port) as claim:
            _write(claim)


def _claim(port: int, *, again: bool = False) -> bool:
    """Reserve the port for this process; False if a living process has it, also this one if not `again`.

    No listener is needed: the port of a broker that restarts must not be given away.
    """
    with _claim_on(port) as claim:
        owner = claim.read()
        if owner == _identity(os.getpid()):
            return again
        pid = owner.partition(" ")[0]
        if pid.isdecimal() and _identity(int(pid)) == owner:
            return False
        _write(claim)
    return True


@contextlib.contextmanager
def _claim_on(port: int) -> Iterator[IO[str]]:
    """Open the file that names a port's owner; only one process at a time reads and writes it."""
    folder = Path(tempfile.gettempdir()) / f"treeline-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    with (folder / str(port)).open("a+", errors="replace") as claim:
        fcntl.flock(claim, fcntl.LOCK_EX)
        claim.seek(0)
        yield claim


def _write(claim: IO[str]) -> None:
    claim.truncate(0)
    claim.write(_identity(os.getpid()))


def _identity(pid: int) -> str:
    """Return a living process's id and start time, as ids are reused; empty if there is none."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in _ENDED else f"{pid} {fields[18]}"


class Ports:
    """The ports of one estate's data folder, remembered in `path`.

    `keep`: remembered ports stay reserved, for one more use in an estate that runs.
    """

    def __init__(self, path: Path, *, prefer_defaults: bool = True, keep: bool = False) -> None:
        self._path = path
        self._prefer_defaults = prefer_defaults
        self._remembered: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
        self._given: dict[str, int] = dict(self._remembered) if keep else {}
        self.moved: list[tuple[str, int, int]] = []
        """(use, wanted port, assigned port) for each wanted port that was taken."""

    def take(self, use: str, preferred: int | None = None, *, former: str = "") -> int:
        """Return the remembered port for this use, else the preferred one, else any spare one that is free now.

        `former` is the name that earlier versions gave the use: the port that they remembered for it counts.
        """
        default = preferred if self._prefer_defaults else None
        wanted = self._remembered.get(use, self._remembered.get(former, default))
        others = self._given.values()
        if wanted is not None and wanted not in others and is_free(wanted) and _claim(wanted, again=True):
            port = wanted
        else:
            port = free_ports(1, {*self._given.values(), *self._remembered.values()})[0]
            if wanted is not None:
                self.moved.append((use, wanted, port))
        self._given[use] = port
        return port

    def forget(self, name: str) -> None:
        """Release the ports of the uses that end with this name, such as `:cluster-1:4`."""
        self._given = {use: port for use, port in self._given.items() if not use.endswith(name)}

    def hold(self) -> None:
        """Reserve all remembered ports; see `hold`."""
        hold(self._remembered.values())

    def remember(self) -> None:
        """Write down the assigned ports."""
        write_private(self._path, json.dumps(self._given, indent=1))
