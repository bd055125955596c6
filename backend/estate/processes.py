"""The supervisor's input: one `ProcessSpec` per process, in the order of start.

The plan travels as JSON in a file that only its owner may read, because it holds passwords as environment;
arguments never hold any, since every user of the machine can see them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from backend.broker_exits import MARKER

__all__ = ["MARKER", "Plan", "ProcessSpec", "Ready", "load_plan", "save_plan", "write_private"]


@dataclass(frozen=True, kw_only=True)
class Ready:
    """Condition for a started process to count as running; the fields used depend on `kind`.

    kinds: log_line(text), http(port, path), tcp(port), redis(port, password), postgres(port), file(path), exit
    (runs once and ends with 0).
    """

    kind: str
    text: str = ""
    port: int = 0
    path: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True, kw_only=True)
class ProcessSpec:
    """One supervised process.

    `after` names processes that must be running first. `stop_signal` requests its end, and after `stop_seconds`
    its whole process group is killed. `group` orders the stop: the highest ends first. `if_out_of_memory` is
    advice for a process that ended for lack of memory.
    """

    name: str
    argv: list[str]
    ready: Ready
    environment: dict[str, str] = field(default_factory=dict, repr=False)
    directory: str
    log: str
    after: list[str] = field(default_factory=list)
    stop_signal: str = "SIGTERM"
    stop_seconds: float = 10.0
    group: int = 0
    if_out_of_memory: str = ""

    @property
    def once(self) -> bool:
        return self.ready.kind == "exit"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One estate as processes; `digest` tells whether a running estate is the requested one.

    `while_pid`: a process with whose end the estate ends as well, such as a test run.
    """

    estate: str
    digest: str
    processes: list[ProcessSpec]
    while_pid: int | None = None


def save_plan(plan: Plan, path: Path) -> None:
    write_private(path, json.dumps(asdict(plan), indent=1))


def load_plan(path: Path) -> Plan:
    document: dict[str, Any] = json.loads(path.read_text())
    processes = [ProcessSpec(**{**spec, "ready": Ready(**spec["ready"])}) for spec in document["processes"]]
    return Plan(**{**document, "processes": processes})


def write_private(path: Path, text: str) -> None:
    """Replace a file atomically, readable by its owner only: a reader sees the old or the new text."""
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.unlink(missing_ok=True)
    unfinished.touch(mode=0o600)
    unfinished.write_text(text)
    unfinished.replace(path)
