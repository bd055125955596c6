"""The supervisor of one estate: `python -m backend.estate.supervisor HOME`, started by `treeline up`.

```
guardian (fork of the same program, holds the lock, adopts orphans)
  └─ supervisor          starts in order, waits for readiness, restarts what dies, stops all on SIGTERM
       ├─ postgres ...   each in its own session, so that its whole process group can be ended
```

A process goes through

```
waiting ──▶ starting ──▶ running ──▶ stopping ──▶ stopped
   ▲           │ died       │ died
   └─ failed ◀─┴────────────┘          done: a run-once process that ended with 0
```

SIGHUP means that the plan may be another one: what is new in it is started, what it no longer has goes through
`stopping` and is forgotten, and all else goes on; a command line that changed is used at the next start.

`failed` means that it died and is started again after a pause; the other processes go on. What ends by its own
fault waits longer each time, up to `PAUSE_MOST_SECONDS`. What another program killed is healthy and is started
again after `PAUSE_KILLED_SECONDS`, however often that happens: a longer pause would only delay its work.

Single-threaded on purpose: the parent-death signal of a child fires when the *thread* that forked it ends, and the
loop sleeps in the kernel while nothing happens.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from backend.estate import children
from backend.estate.death_causes import Death, death_of, oom_kills
from backend.estate.home import Home, try_lock
from backend.estate.ports import Ports
from backend.estate.processes import Plan, ProcessSpec, load_plan, write_private
from backend.estate.readiness import is_ready
from backend.parent_exit import exit_with_parent

PAUSE_KILLED_SECONDS = 0.1
PAUSE_FIRST_SECONDS = 0.5
PAUSE_MOST_SECONDS = 15.0
STEADY_SECONDS = 30.0  # a process that ran this long starts again with the first, short pause
LOOK_EVERY_SECONDS = 0.1
IDLE_SECONDS = 5.0
LOG_MOST_BYTES = 16 * 1024 * 1024


@dataclass
class Supervised:
    """State of one supervised process."""

    spec: ProcessSpec
    state: str = "waiting"
    pid: int | None = None
    started: float = 0.0  # monotonic seconds
    log_start: int = 0
    retry_at: float = 0.0
    pause: float = PAUSE_FIRST_SECONDS
    restarts: int = 0
    detail: str = ""
    oom_kills: int = 0  # the kernel's count when this run began
    last_end: dict[str, str] | None = None
    """Time and cause of its last end, kept also when it runs again."""
    kill_at: float | None = None  # monotonic seconds; set once the plan no longer contains it


def pauses(death: Death, own: float) -> tuple[float, float]:
    """Return the seconds until a dead process is restarted, and those after its next failure of its own."""
    if death.by_others:
        return PAUSE_KILLED_SECONDS, own
    return own, min(own * 2, PAUSE_MOST_SECONDS)


class Supervisor:
    """Runs a plan until it is stopped."""

    def __init__(self, home: Home, plan: Plan) -> None:
        self.home = home
        self.plan = plan
        self.processes = {spec.name: Supervised(spec) for spec in plan.processes}
        self.stopping = False
        self._written = ""

    def run(self) -> None:
        self._hold_ports()
        with children.Wakeup() as wakeup, selectors.DefaultSelector() as selector:
            selector.register(wakeup, selectors.EVENT_READ)
            self._watch_owner(selector)
            while not self.stopping:
                self._look()
                self._start_what_can()  # after the poll, which may have found processes ready that others wait for
                self._write_state()
                happened = selector.select(self._next_look_seconds())
                self._handle(wakeup.drain())
                if any(key.fileobj is not wakeup for key, _ in happened):
                    self.stopping = True
        self._stop_all()
        self._write_state()

    def _hold_ports(self) -> None:
        """Take over the ports from the process that drew them, which ends soon, while processes are restarted.

        If that cannot be written down, other programs may draw a port while nothing listens on it; the estate does
        not end for that.
        """
        with contextlib.suppress(OSError):
            Ports(self.home.data(self.plan.estate) / "ports.json").hold()

    def _watch_owner(self, selector: selectors.BaseSelector) -> None:
        """Make the selector wake up when the process ends that this estate was started for."""
        if self.plan.while_pid is not None:
            try:
                selector.register(os.pidfd_open(self.plan.while_pid), selectors.EVENT_READ)
            except ProcessLookupError:
                self.stopping = True

    def _handle(self, signals: set[int]) -> None:
        self._reap()
        if signals & {signal.SIGTERM, signal.SIGINT}:
            self.stopping = True
        if signal.SIGHUP in signals and not self.stopping:
            self._take_up_plan()
            for process in self.processes.values():  # `up` may have been run again: retry failed processes at once
                process.retry_at = 0.0
        children.bound_logs(self.home.logs, LOG_MOST_BYTES)

    def _take_up_plan(self) -> None:
        self.plan = load_plan(self.home.plan)
        self._hold_ports()
        specs = {spec.name: spec for spec in self.plan.processes}
        leaving = {name: process for name, process in self.processes.items() if name not in specs}
        known = self.processes
        # In the plan's order, which is that of the start; a process that leaves stays in the list until it has
        # ended.
        self.processes = {name: known.get(name) or Supervised(spec) for name, spec in specs.items()}
        for name, spec in specs.items():
            self.processes[name].spec = spec
        for name, process in leaving.items():
            self._dismiss(name, process)

    def _dismiss(self, name: str, process: Supervised) -> None:
        if process.pid is None:
            return
        self.processes[name] = process
        if process.kill_at is None:
            process.state, process.kill_at = "stopping", time.monotonic() + process.spec.stop_seconds
            children.send(process.pid, signal.Signals[process.spec.stop_signal])

    def _start_what_can(self) -> None:
        now = time.monotonic()
        for process in self.processes.values():
            pausing = process.state == "failed" and now < process.retry_at
            if process.state not in ("waiting", "failed") or pausing:
                continue
            if all(self.processes[name].state in ("running", "done") for name in process.spec.after):
                self._start(process)

    def _start(self, process: Supervised) -> None:
        spec = process.spec
        process.log_start = Path(spec.log).stat().st_size if Path(spec.log).exists() else 0
        process.started, process.oom_kills = time.monotonic(), oom_kills()
        if spec.ready.kind == "file":
            for stale in Path(spec.ready.path).parent.glob(Path(spec.ready.path).name + "*"):
                stale.unlink()
        try:
            process.pid = children.spawn(spec)
        except OSError as error:
            self._failed(process, Death(detail=f"cannot start {spec.argv[0]}: {error}"))
            return
        process.state = "starting"

    def _look(self) -> None:
        now = time.monotonic()
        for process in self.processes.values():
            if process.state == "starting" and is_ready(process.spec, process.log_start):
                process.state, process.detail = "running", ""
            if process.kill_at is not None and process.pid is not None and now > process.kill_at:
                children.end_group(process.pid)
            if process.state == "running" and now - process.started > STEADY_SECONDS:
                process.pause = PAUSE_FIRST_SECONDS

    def _next_look_seconds(self) -> float:
        states = {process.state for process in self.processes.values()}
        if states & {"starting", "stopping"}:
            return LOOK_EVERY_SECONDS
        retries = [process.retry_at for process in self.processes.values() if process.state == "failed"]
        now = time.monotonic()
        return min([IDLE_SECONDS, *(max(LOOK_EVERY_SECONDS, at - now) for at in retries)])

    def _reap(self) -> None:
        """Collect ended processes, also orphans of dead children, as this is their subreaper."""
        by_pid = {process.pid: process for process in self.processes.values() if process.pid is not None}
        for pid, status in children.ended():
            process = by_pid.get(pid)
            if process is None:
                continue
            # Its forks must not keep running beside its successor.
            children.end_group(pid)
            process.pid = None
            code = os.waitstatus_to_exitcode(status)
            if process.kill_at is not None and not self.stopping:
                del self.processes[process.spec.name]
            elif process.spec.once and code == 0:
                process.state, process.detail = "done", ""
            elif self.stopping:
                process.state = "stopped"
            else:
                death = death_of(
                    process.spec,
                    code,
                    log_start=process.log_start,
                    oom_kills_before=process.oom_kills,
                    was_running=process.state == "running",
                )
                self._failed(process, death)

    def _failed(self, process: Supervised, death: Death) -> None:
        process.state, process.detail, process.pid = "failed", death.detail, None
        process.last_end = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "reason": death.detail}
        process.restarts += 1
        pause, process.pause = pauses(death, process.pause)
        process.retry_at = time.monotonic() + pause

    def _stop_all(self) -> None:
        for process in self.processes.values():
            if process.pid is None:
                process.state = "stopped"
        for group in sorted({process.spec.group for process in self.processes.values()}, reverse=True):
            members = [p for p in self.processes.values() if p.spec.group == group and p.pid is not None]
            for process in members:
                process.state = "stopping"
                children.send(process.pid, signal.Signals[process.spec.stop_signal])
            self._write_state()
            deadline = time.monotonic() + max((p.spec.stop_seconds for p in members), default=0.0)
            while any(p.pid is not None for p in members) and time.monotonic() < deadline:
                time.sleep(0.02)
                self._reap()
            for process in members:
                if process.pid is not None:
                    children.end_group(process.pid)
                process.state, process.pid = "stopped", None

    def _write_state(self) -> None:
        rows = [
            {
                "name": process.spec.name,
                "pid": process.pid,
                "state": process.state,
                "restarts": process.restarts,
                "detail": process.detail,
                "last_end": process.last_end,
                "log": process.spec.log,
            }
            for process in self.processes.values()
        ]
        text = json.dumps(
            {
                "estate": self.plan.estate,
                "digest": self.plan.digest,
                "supervisor": os.getpid(),
                "processes": rows,
            }
        )
        if text != self._written:
            write_private(self.home.state, text)
            self._written = text


def main() -> None:
    home = Home(Path(sys.argv[1]))
    lock = try_lock(home.supervisor_lock)
    if lock is None:
        sys.exit("another supervisor runs in this home")
    # Until the new run has written its own state, nobody may read that of an earlier run.
    home.state.unlink(missing_ok=True)
    plan = load_plan(home.plan)
    children.adopt_orphans()
    supervisor = os.fork()
    if supervisor:
        children.guard(supervisor, home)
        return
    exit_with_parent(signal.SIGTERM)
    children.adopt_orphans()
    Supervisor(home, plan).run()


if __name__ == "__main__":
    main()
