"""`treeline up` and `treeline down`: an estate from its file to a proven running system, and back.

`up` copes with anything that an earlier run left behind: a half-dead run is ended first, found by the marker in
its processes' environment. It starts the supervisor, waits, applies the estate, verifies, and reports.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx2

from backend.estate.added_brokers import read_added, save_added
from backend.estate.children import end_leftovers, send
from backend.estate.class_archive import ensure_kafka
from backend.estate.control_plane import ControlPlane, Refused, apply_estate
from backend.estate.document import Estate
from backend.estate.home import Home, command_lock_held
from backend.estate.plan import (
    Layout,
    control_plane_environment,
    inherited_environment,
    lay_out,
    make_plan,
    postgres_server,
)
from backend.estate.ports import Ports
from backend.estate.processes import save_plan, write_private
from backend.estate.programs.heap import heap_warnings, machine_memory_mb
from backend.estate.programs.postgres_upgrade import carry_over
from backend.estate.record_loop import ensure_record_loop
from backend.estate.running import is_running, not_ready, read_state
from backend.estate.saved_layout import restore_layout, save_layout
from backend.estate.start_progress import Patience

Progress = Callable[[str], None]

LOOK_SECONDS = 0.2
SAY_EVERY_SECONDS = 15.0
STOP_SECONDS = 60.0
APPLY_TRIES = 10
VERIFY_RECORDS = 1000


class AnotherEstateRuns(RuntimeError):
    """Another estate runs in this home."""


class StartFailed(RuntimeError):
    """The supervisor itself did not start."""


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """Options of a boot: preferred or spare ports, proof of distribution, a process whose end stops the estate."""

    spare_ports: bool = False
    verify: bool = True
    while_pid: int | None = None


@dataclass(kw_only=True)
class Booted:
    """Result of `up`; `unready` are processes (rows of the state file) that do not run."""

    layout: Layout
    unready: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    verification: dict[str, Any] | None = None
    login_link: str | None = None

    @property
    def ok(self) -> bool:
        verified = self.verification is None or bool(self.verification.get("ok"))
        return verified and not self.unready and not self.problems


def up(home: Home, estate: Estate, progress: Progress, wishes: Wishes) -> Booted:
    """Boot or resume the estate.

    Raises AnotherEstateRuns, AddedDoNotFit, JavaMissing, PostgresMissing, ValkeyMissing, StartFailed.
    """
    home.make()
    with command_lock_held(home, progress):
        if is_running(home):
            layout = _running_layout(home, estate)
            progress(f"estate {estate.name} runs already")
            state = _wait(home, progress, deaths_allowed=1)
        else:
            layout = _start(home, estate, progress, wishes)
            state = _wait(home, progress, deaths_allowed=3)
        booted = Booted(layout=layout, unready=not_ready(state))
        if any(process["name"] == "api" for process in booted.unready):
            return booted
        _apply(booted, progress)
        if wishes.verify and not booted.unready and not booted.problems:
            booted.verification = _verify_once(layout, progress)
        return booted


def down(home: Home, progress: Progress, *, wipe: bool = False) -> None:
    """Stop everything in this home, in order; keeps the data unless `wipe`."""
    if not home.run.is_dir():
        return
    with command_lock_held(home, progress):
        deadline = time.monotonic() + STOP_SECONDS
        # Data that is deleted anyway need not be left consistent: the guardian ends everything at once.
        number = signal.SIGKILL if wipe else signal.SIGTERM
        state = read_state(home)
        while is_running(home) and time.monotonic() < deadline:
            if state is None:  # a supervisor that has just started
                state = read_state(home)
            elif _is_supervisor(state["supervisor"]):
                send(state["supervisor"], number)
            time.sleep(0.1)
        if left := end_leftovers(home):
            progress(f"ended {len(left)} processes that a killed run had left behind")
    if wipe:
        home.wipe()


def _start(home: Home, estate: Estate, progress: Progress, wishes: Wishes) -> Layout:
    added = read_added(home, estate)
    if left := end_leftovers(home):
        progress(f"ended {len(left)} processes that a killed run had left behind")
    kafka = ensure_kafka(progress)
    ensure_record_loop(progress)
    home.data(estate.name).mkdir(parents=True, exist_ok=True)
    ports = Ports(home.data(estate.name) / "ports.json", prefer_defaults=not wishes.spare_ports)
    layout = lay_out(home, estate, ports, added)
    for warning in heap_warnings(estate, machine_memory_mb()):
        progress(warning)
    if ports.moved:
        moves = ", ".join(f"{use} from {wanted} to {given}" for use, wanted, given in ports.moved)
        progress(f"ports taken by other programs, so moved: {moves}")
    ports.remember()
    save_added(home, estate, layout.added)
    if layout.postgres_port is not None:
        carry_over(postgres_server(home, estate.name, layout.postgres_port), progress)
    plan = make_plan(layout, kafka, wishes.while_pid)
    save_plan(plan, home.plan)
    save_layout(layout)
    for stale in ("verified.json", "state.json"):
        (home.run / stale).unlink(missing_ok=True)
    progress(f"starting estate {estate.name}: {len(plan.processes)} processes")
    with home.log("supervisor").open("ab") as log:
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "backend.estate.supervisor", str(home.path)],
            cwd=home.path,
            env=inherited_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    while read_state(home) is None:
        if supervisor.poll() is not None:
            raise StartFailed(f"the supervisor ended with {supervisor.returncode}; see {home.log('supervisor')}")
        time.sleep(0.05)
    return layout


def _wait(home: Home, progress: Progress, deaths_allowed: int) -> dict[str, Any]:
    """Wait until every process runs, has died too often, or is stuck; return the last state.

    There is no deadline: on a busy machine it takes as long as it takes, and reports now and then what it waits
    for.
    """
    patience, told, said_at = Patience(), dict[str, str](), time.monotonic()
    state = read_state(home)
    if state and any(process["state"] == "failed" for process in state["processes"]):
        send(state["supervisor"], signal.SIGHUP)  # retry paused processes at once
    deaths = {p["name"]: p["restarts"] for p in state["processes"]} if state else {}
    while True:
        state = read_state(home)
        if state is None or not is_running(home):
            raise StartFailed(f"the supervisor ended; see {home.log('supervisor')}")
        for process in state["processes"]:
            text = process["state"] + (f" ({process['detail']})" if process["detail"] else "")
            if process["state"] in ("running", "done", "failed") and told.get(process["name"]) != text:
                told[process["name"]] = text
                progress(f"{process['name']} {text}")
        waited_for = [
            process
            for process in not_ready(state)
            if process["state"] != "waiting"
            and process["restarts"] - deaths.get(process["name"], 0) < deaths_allowed
            and not patience.is_over(process["name"])
        ]
        if not waited_for:
            return state
        now = time.monotonic()
        patience.look(
            {process["name"]: process["pid"] for process in waited_for},
            {process["name"]: process["state"] for process in state["processes"]},
            now,
        )
        if now - said_at > SAY_EVERY_SECONDS:
            said_at = now
            progress(f"waiting for {_names(waited_for)}{_busy(patience)}")
        time.sleep(LOOK_SECONDS)


def _names(processes: list[dict[str, Any]]) -> str:
    return ", ".join(process["name"] for process in processes)


def _busy(patience: Patience) -> str:
    share = patience.starved_share
    return f": the machine is busy, they wait {share:.0%} of the time for a CPU or the disk" if share > 0.2 else ""


def _apply(booted: Booted, progress: Progress) -> None:
    layout = booted.layout
    names = {process["name"].split(":")[1] for process in booted.unready if process["name"].startswith("kafka:")}
    try:
        with ControlPlane(layout.url, layout.home.secret("admin-token"), tries=APPLY_TRIES) as api:
            booted.changed = apply_estate(api, layout, names, progress)
            progress(f"applied: {', '.join(booted.changed)}" if booted.changed else "nothing to change")
            with contextlib.suppress(Refused):
                booted.login_link = api.login_link()
    except (Refused, httpx2.TransportError) as error:
        booted.problems.append(str(error) or type(error).__name__)


def _verify_once(layout: Layout, progress: Progress) -> dict[str, Any] | None:
    """Prove distribution, unless this run of the estate has proven it before."""
    proof = layout.home.run / "verified.json"
    if proof.exists():
        verified: dict[str, Any] = json.loads(proof.read_text())
        return verified
    if find_spec("backend.verification") is None:
        return None
    progress(f"verifying: {VERIFY_RECORDS} records on every cluster must reach every cluster once")
    finished = subprocess.run(
        [sys.executable, "-m", "backend.cli", "verify", "--records", str(VERIFY_RECORDS), "--json"],
        cwd=layout.home.path,
        env={
            **inherited_environment(),
            **control_plane_environment(layout),
            "TREELINE_TOKEN": layout.home.secret("admin-token"),
            "TREELINE_CONTEXT": "",
            # Empty: the caller's variable would take precedence and lead to another control plane.
        },
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    try:
        answer: dict[str, Any] = json.loads(finished.stdout)
    except ValueError:
        said = f"treeline verify ended with {finished.returncode} and answered {finished.stdout[:200]!r}"
        return {"ok": False, "detail": said}
    if answer.get("ok"):
        write_private(proof, finished.stdout)
    return answer


def _is_supervisor(pid: int) -> bool:
    try:
        return b"backend.estate.supervisor" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _running_layout(home: Home, estate: Estate) -> Layout:
    while (state := read_state(home)) is None and is_running(home):
        time.sleep(0.05)
    if state is None:
        raise StartFailed(f"the supervisor ended; see {home.log('supervisor')}")
    if state["digest"] != estate.digest:
        other = f"estate {state['estate']}"
        if state["estate"] == estate.name:
            other = f"another version of estate {estate.name}"
        raise AnotherEstateRuns(f"{other} runs in {home.path}; stop it first with `treeline down`.")
    return restore_layout(home)
