"""The folders and files of one TREELINE_HOME.

```
secrets/           admin token and passwords, one file each, mode 0600
run/               state of the running estate: lock, plan, state
logs/              one file per process, its older part beside it as NAME.log.1
data/ESTATE/       PostgreSQL, brokers, remembered ports: kept by `down`, deleted by `down --wipe`
```
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Home:
    """One TREELINE_HOME; `path` is absolute."""

    path: Path

    @property
    def run(self) -> Path:
        return self.path / "run"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def plan(self) -> Path:
        return self.run / "plan.json"

    @property
    def state(self) -> Path:
        return self.run / "state.json"

    @property
    def supervisor_lock(self) -> Path:
        """Lock held by the supervisor and its guardian: it is free only when none of their processes is left."""
        return self.run / "supervisor.lock"

    @property
    def command_lock(self) -> Path:
        """Lock held by commands that change the estate, so that two such commands run one after the other."""
        return self.run / "command.lock"

    def data(self, estate: str) -> Path:
        return self.path / "data" / estate

    def log(self, process: str) -> Path:
        return self.logs / f"{process.replace(':', '.')}.log"

    def make(self) -> None:
        for folder in (self.path, self.run, self.logs, self.path / "secrets"):
            folder.mkdir(parents=True, exist_ok=True)
        for private in (self.run, self.logs, self.path / "secrets"):
            private.chmod(0o700)

    def secret_path(self, name: str) -> Path:
        return self.path / "secrets" / name

    def secret(self, name: str) -> str:
        """Return the secret of this name, created at its first use."""
        path = self.secret_path(name)
        if not path.exists():
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(24))
        return path.read_text().strip()

    def wipe(self) -> None:
        """Delete this home's own files, but not other files that somebody put beside them."""
        for name in ("data", "logs", "secrets", "run"):
            shutil.rmtree(self.path / name, ignore_errors=True)


def try_lock(path: Path) -> int | None:
    """Return the descriptor of the exclusive lock on this file, or None if another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


@contextlib.contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Hold the exclusive lock on this file; waits for the process that holds it now."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def command_lock_held(home: Home, progress: Callable[[str], None]) -> Iterator[None]:
    """Hold the command lock; waits for another command of this home that holds it, and reports that."""
    with home.command_lock.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another command that changes this home's estate")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
