"""The supervisor on small real processes: order, restart, stop, and no orphan however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.estate.children import end_leftovers, marked
from backend.estate.home import Home
from backend.estate.processes import MARKER, Plan, ProcessSpec, Ready, save_plan
from backend.estate.running import is_running, read_state
from backend.settings import PROJECT_ROOT
from tests.eventually import eventually

# A process with a child of its own, like a Celery worker with its pool.
PARENT_AND_CHILD = "sleep 1000 & echo up; wait"


class Supervision:
    """A home with a plan of shell scripts, and the supervisor that runs it."""

    def __init__(self, path: Path) -> None:
        self.home = Home(path)
        self.home.make()
        self.specs: list[ProcessSpec] = []

    def add(self, name: str, script: str, *, once: bool = False, after: list[str] | None = None) -> None:
        self.specs.append(
            ProcessSpec(
                name=name,
                argv=["/bin/sh", "-c", script],
                environment={MARKER: str(self.home.path)},
                directory=str(self.home.path),
                log=str(self.home.log(name)),
                ready=Ready(kind="exit") if once else Ready(kind="log_line", text="up"),
                after=after or [],
                stop_seconds=1.0,
                group=len(self.specs),
            )
        )

    def save(self, while_pid: int | None = None) -> None:
        plan = Plan(estate="scripts", digest="1", processes=self.specs, while_pid=while_pid)
        save_plan(plan, self.home.plan)

    def replan(self) -> None:
        """Make the running supervisor adopt the current `specs`."""
        self.save()
        os.kill(self.supervisor(), signal.SIGHUP)

    def start(self, while_pid: int | None = None) -> None:
        self.save(while_pid)
        with self.home.log("supervisor").open("ab") as log:
            subprocess.Popen(
                [sys.executable, "-m", "backend.estate.supervisor", str(self.home.path)],
                cwd=PROJECT_ROOT,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def row(self, name: str) -> dict[str, Any]:
        state = read_state(self.home) or {"processes": []}
        return next((row for row in state["processes"] if row["name"] == name), {"state": None, "pid": None})

    def until(self, name: str, state: str) -> dict[str, Any]:
        eventually(lambda: self.row(name)["state"] == state, f"{name} is {state}")
        return self.row(name)

    def supervisor(self) -> int:
        state = read_state(self.home)
        assert state is not None
        return int(state["supervisor"])

    def nothing_left(self) -> None:
        eventually(lambda: not is_running(self.home), "the supervisor has ended")
        assert marked(self.home) == []


@pytest.fixture
def supervision(tmp_path: Path) -> Iterator[Supervision]:
    running = Supervision(tmp_path / "home")
    yield running
    if is_running(running.home):
        os.kill(running.supervisor(), signal.SIGTERM)
        eventually(lambda: not is_running(running.home), "the supervisor has ended")
    end_leftovers(running.home)


def guardian_of(supervisor: int) -> int:
    status = Path(f"/proc/{supervisor}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:"))


def test_a_process_starts_only_when_what_it_needs_is_ready(supervision: Supervision) -> None:
    supervision.add("first", "until [ -f go ]; do sleep 0.05; done; echo up; exec sleep 1000")
    supervision.add("second", "[ -f go ] && echo up && exec sleep 1000", after=["first"])
    supervision.start()
    supervision.until("first", "starting")
    assert supervision.row("second")["state"] == "waiting"
    (supervision.home.path / "go").touch()
    assert supervision.until("second", "running")["restarts"] == 0


def test_a_run_once_process_is_done_and_is_not_started_again(supervision: Supervision) -> None:
    supervision.add("once", "echo x >> runs", once=True)
    supervision.add("after", "echo up; exec sleep 1000", after=["once"])
    supervision.start()
    supervision.until("after", "running")
    assert supervision.row("once")["state"] == "done"
    assert (supervision.home.path / "runs").read_text() == "x\n"


def test_a_killed_process_runs_again_with_another_pid(supervision: Supervision) -> None:
    supervision.add("server", "echo up; exec sleep 1000")
    supervision.start()
    first = supervision.until("server", "running")
    os.kill(first["pid"], signal.SIGKILL)
    eventually(lambda: supervision.row("server")["restarts"] == 1, "the death was seen")
    assert supervision.until("server", "running")["pid"] != first["pid"]


def test_a_killed_parent_leaves_no_child_beside_its_successor(supervision: Supervision) -> None:
    supervision.add("worker", PARENT_AND_CHILD)
    supervision.start()
    os.kill(supervision.until("worker", "running")["pid"], signal.SIGKILL)
    eventually(lambda: supervision.row("worker")["restarts"] == 1, "the death was seen")
    supervision.until("worker", "running")
    assert len(marked(supervision.home)) == 2


def test_one_that_fails_is_reported_and_tried_again_while_the_rest_goes_on(supervision: Supervision) -> None:
    supervision.add("broken", "[ -f mended ] || exit 7; echo up; exec sleep 1000")
    supervision.add("sound", "echo up; exec sleep 1000")
    supervision.start()
    supervision.until("sound", "running")
    assert supervision.until("broken", "failed")["detail"] == "exit 7"
    (supervision.home.path / "mended").touch()
    supervision.until("broken", "running")
    assert supervision.row("sound")["restarts"] == 0


def test_a_program_that_does_not_exist_is_reported(supervision: Supervision) -> None:
    supervision.add("absent", "")
    supervision.specs[0].argv[:] = ["/no/such/program"]
    supervision.start()
    assert "/no/such/program" in supervision.until("absent", "failed")["detail"]


def test_stop_goes_backwards_and_ends_what_does_not_listen(supervision: Supervision) -> None:
    supervision.add("first", "trap 'echo first >> ended; exit' TERM; echo up; while :; do sleep 0.05; done")
    supervision.add("second", "trap 'echo second >> ended; exit' TERM; echo up; while :; do sleep 0.05; done")
    supervision.add("deaf", "trap '' TERM; echo up; while :; do sleep 0.05; done")
    supervision.start()
    for name in ("first", "second", "deaf"):
        supervision.until(name, "running")
    os.kill(supervision.supervisor(), signal.SIGTERM)
    supervision.nothing_left()
    assert (supervision.home.path / "ended").read_text() == "second\nfirst\n"


def test_what_is_new_in_the_plan_is_started_and_kept_alive_and_the_rest_goes_on(supervision: Supervision) -> None:
    supervision.add("first", "echo up; exec sleep 1000")
    supervision.start()
    before = supervision.until("first", "running")
    supervision.add("second", "echo up; exec sleep 1000", after=["first"])
    supervision.replan()
    second = supervision.until("second", "running")
    os.kill(second["pid"], signal.SIGKILL)
    eventually(lambda: supervision.row("second")["restarts"] == 1, "the death was seen")
    supervision.until("second", "running")
    assert supervision.row("first") == before


def test_what_the_plan_no_longer_has_is_asked_to_end_and_forgotten(supervision: Supervision) -> None:
    supervision.add("stays", "echo up; exec sleep 1000")
    supervision.add("goes", "trap 'echo asked >> ended; exit' TERM; echo up; while :; do sleep 0.05; done")
    supervision.add("deaf", "trap '' TERM; echo up; while :; do sleep 0.05; done")
    supervision.add("fails", "exit 7")
    supervision.start()
    for name in ("stays", "goes", "deaf"):
        supervision.until(name, "running")
    supervision.until("fails", "failed")
    before = supervision.row("stays")
    del supervision.specs[1:]
    supervision.replan()
    for name in ("goes", "deaf", "fails"):
        eventually(lambda name=name: supervision.row(name)["state"] is None, f"{name} is forgotten")  # type: ignore[misc]
    assert (supervision.home.path / "ended").read_text() == "asked\n"
    assert supervision.row("stays") == before
    eventually(lambda: marked(supervision.home) == [before["pid"]], "nothing else is left")


def test_a_command_line_that_changed_is_used_at_the_next_start(supervision: Supervision) -> None:
    supervision.add("server", "echo old >> runs; echo up; exec sleep 1000")
    supervision.start()
    before = supervision.until("server", "running")
    supervision.specs.clear()
    supervision.add("server", "echo new >> runs; echo up; exec sleep 1000")
    supervision.add("sign", "echo up; exec sleep 1000")
    supervision.replan()
    supervision.until("sign", "running")
    assert supervision.row("server") == before
    os.kill(before["pid"], signal.SIGKILL)
    eventually(lambda: supervision.row("server")["restarts"] == 1, "the death was seen")
    supervision.until("server", "running")
    assert (supervision.home.path / "runs").read_text() == "old\nnew\n"


def kill_supervisor(supervision: Supervision) -> None:
    os.kill(supervision.supervisor(), signal.SIGKILL)


def kill_guardian(supervision: Supervision) -> None:
    os.kill(guardian_of(supervision.supervisor()), signal.SIGKILL)


@pytest.mark.parametrize("kill", [kill_supervisor, kill_guardian])
def test_no_orphan_when_either_is_killed(supervision: Supervision, kill: Callable[[Supervision], None]) -> None:
    supervision.add("worker", PARENT_AND_CHILD)
    supervision.start()
    supervision.until("worker", "running")
    assert len(marked(supervision.home)) == 2
    kill(supervision)
    supervision.nothing_left()


def test_what_a_killed_supervisor_and_guardian_leave_is_found_by_its_mark(supervision: Supervision) -> None:
    supervision.add("worker", PARENT_AND_CHILD)
    supervision.start()
    supervision.until("worker", "running")
    supervisor = supervision.supervisor()
    # Stopped first, so that neither can react to the other's death.
    os.kill(guardian_of(supervisor), signal.SIGSTOP)
    os.kill(guardian_of(supervisor), signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)
    eventually(lambda: not is_running(supervision.home), "both have ended")
    end_leftovers(supervision.home)
    assert marked(supervision.home) == []


def test_it_ends_with_the_process_that_it_was_started_for(supervision: Supervision) -> None:
    supervision.add("server", "echo up; exec sleep 1000")
    with subprocess.Popen(["sleep", "1000"]) as owner:
        supervision.start(while_pid=owner.pid)
        supervision.until("server", "running")
        owner.kill()
    supervision.nothing_left()


def test_a_second_supervisor_in_one_home_gives_up(supervision: Supervision) -> None:
    supervision.add("server", "echo up; exec sleep 1000")
    supervision.start()
    supervision.until("server", "running")
    second = subprocess.run(
        [sys.executable, "-m", "backend.estate.supervisor", str(supervision.home.path)],
        cwd=PROJECT_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert second.returncode != 0
    assert "another supervisor" in second.stderr
    assert supervision.row("server")["state"] == "running"


def test_a_log_that_grows_too_long_is_cut_and_goes_on(tmp_path: Path) -> None:
    from backend.estate.children import bound_logs

    log = tmp_path / "talker.log"
    with log.open("a") as writer:
        writer.write("x" * 100)
        writer.flush()
        bound_logs(tmp_path, 50)
        writer.write("next")
    assert log.read_text() == "next"
    assert (tmp_path / "talker.log.1").read_text() == "x" * 100


def test_why_a_process_ended_is_still_said_when_it_runs_again(supervision: Supervision) -> None:
    lacking = "echo 'Terminating due to java.lang.OutOfMemoryError: Java heap space'; exit 3"
    supervision.add("server", f"[ -f again ] && echo up && exec sleep 1000; touch again; {lacking}")
    supervision.start()
    row = supervision.until("server", "running")
    assert (row["restarts"], row["detail"]) == (1, "")
    assert row["last_end"]["reason"] == "ended: out of memory"


def test_who_is_killed_again_and_again_is_started_again_as_soon_each_time(supervision: Supervision) -> None:
    supervision.add("server", "echo up; exec sleep 1000")
    supervision.start()
    for kills in range(8):  # each pause was twice the one before: 45 s until the eighth start
        pid = supervision.until("server", "running")["pid"]
        os.kill(pid, signal.SIGKILL)
        eventually(lambda kills=kills: supervision.row("server")["restarts"] == kills + 1, "the death was seen")
    assert supervision.until("server", "running")["last_end"]["reason"] == "killed by SIGKILL"
    log = supervision.home.log("server").read_text()
    assert log.count("up") == 9
