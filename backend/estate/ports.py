"""Ports on 127.0.0.1: the preferred one if it is free, else another, the same again at the next start.

Which ports are "taken"? When `up` looks, no process of its own home runs any more (it holds the
supervisor's lock and has ended leftovers by their marker), so whoever listens is a stranger, also another
home's estate; it is left alone, and the estate takes another port.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from backend.estate.processes import write_private

# Below the range from which the kernel takes ports for outgoing connections (32768 on): otherwise a client's
# connection could sit on a broker's port while that broker restarts.
SPARE = range(20000, 32000)
CLAIM_SECONDS = 60.0
"""How long one who has drawn a port has to begin to listen, before somebody else may draw it."""


def is_free(port: int) -> bool:
    """Whether a server could listen there now; ports in TIME_WAIT count as free, as servers reuse them."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _is_claimed_now(port: int) -> bool:
    """Claim a port that nobody has claimed lately: whoever draws it has not begun to listen yet.

    Of two who look at the same moment whether a port is free, both would take it.
    """
    folder = Path(tempfile.gettempdir()) / f"treeline-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    claim = folder / str(port)
    try:
        claim.touch(exist_ok=False)
    except FileExistsError:
        with contextlib.suppress(FileNotFoundError):
            if time.time() - claim.stat().st_mtime < CLAIM_SECONDS:
                return False
        claim.touch()
    return True


def free_ports(count: int, taken: Iterable[int] = ()) -> list[int]:
    """Distinct spare ports that are free now. Drawn by lot, so that two estates that start together differ."""
    avoid = set(taken)
    found: list[int] = []
    for port in random.sample(SPARE, len(SPARE)):
        if len(found) == count:
            break
        if port not in avoid and is_free(port) and _is_claimed_now(port):
            found.append(port)
    return found


class Ports:
    """The ports of one estate's data folder, remembered in `path`.

    `keep`: what is remembered stays given, for one more use in an estate that runs.
    """

    def __init__(self, path: Path, *, prefer_defaults: bool = True, keep: bool = False) -> None:
        self._path = path
        self._prefer_defaults = prefer_defaults
        self._remembered: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
        self._given: dict[str, int] = dict(self._remembered) if keep else {}
        self.moved: list[tuple[str, int, int]] = []
        """(use, wanted port, port given) where the wanted one was taken."""

    def take(self, use: str, preferred: int | None = None) -> int:
        """The port that is remembered for this use, else the preferred one, else any spare one; free now."""
        wanted = self._remembered.get(use, preferred if self._prefer_defaults else None)
        if wanted is not None and wanted not in self._given.values() and is_free(wanted):
            port = wanted
        else:
            port = free_ports(1, {*self._given.values(), *self._remembered.values()})[0]
            if wanted is not None:
                self.moved.append((use, wanted, port))
        self._given[use] = port
        return port

    def forget(self, name: str) -> None:
        """Give back the ports of the uses that end with this name, such as `:cluster-1:4`."""
        self._given = {use: port for use, port in self._given.items() if not use.endswith(name)}

    def remember(self) -> None:
        """Write down what was given."""
        write_private(self._path, json.dumps(self._given, indent=1))
