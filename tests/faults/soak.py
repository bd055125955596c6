"""Random faults for a given time: `make soak MINUTES=5 SEED=7` (python -m tests.faults.soak).

Records flow on five clusters at 2,000 a second while faults are drawn from the seed, started, and healed one after
the other; at the end everything becomes idle and the checker compares all clusters with the history. Long soaks
run in rounds with a verdict each. It prints every fault with its time, the counts, and the seed to repeat it, and
exits with 1 unless the list of anomalies is empty.
"""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from backend.settings import PROJECT_ROOT
from tests.eventually import eventually
from tests.faults.changes import lose_a_leaf, replace_the_tree, switch_a_target
from tests.faults.judge import kinds
from tests.faults.runs import CLUSTERS, Place, Run, Undo, nothing
from tests.support.estate.running import boot, treeline

FIVE_CLUSTERS = PROJECT_ROOT / "tests" / "faults" / "five.yaml"
RECORDS_PER_SECOND = 2000.0
ROUND_SECONDS = 300.0
MOST_TOLD = 200
QUIET_SECONDS = (0.5, 3.0)
FAULT_SECONDS = (1.0, 8.0)

Fault = Callable[[Place, Random], tuple[str, Undo]]
"""Starts a fault on the estate; returns its description, and how it is undone."""


def kill_a_broker(place: Place, rng: Random) -> tuple[str, Undo]:
    cluster, number = rng.choice([("cluster-1", n) for n in (1, 2, 3)] + [(name, 1) for name in CLUSTERS[1:]])
    return _kill(place, f"kafka:{cluster}:{number}")


def kill_a_process(place: Place, rng: Random) -> tuple[str, Undo]:
    return _kill(place, rng.choice(["worker:shifts", "worker:control", "beat", "api", "postgres", "valkey"]))


def kill_a_holder(place: Place, rng: Random) -> tuple[str, Undo]:
    pid = _a_holder(place, rng)
    place.signal(pid, signal.SIGKILL)
    return f"kill -9 of a process that runs tasks ({pid})", nothing


def stop_a_holder(place: Place, rng: Random) -> tuple[str, Undo]:
    pid = _a_holder(place, rng)
    place.stop(pid)
    return f"SIGSTOP of a process that runs tasks ({pid})", lambda: place.go_on(pid)


def stop_a_service(place: Place, rng: Random) -> tuple[str, Undo]:
    name = rng.choice(["valkey", "api", "worker:control", *(f"kafka:{name}:1" for name in CLUSTERS)])
    pid = place.pid(name)
    place.stop(pid)
    return f"SIGSTOP of {name}", lambda: place.go_on(pid)


def flush_valkey(place: Place, rng: Random) -> tuple[str, Undo]:
    place.valkey().flushall()
    return "FLUSHALL of Valkey", nothing


def break_a_link(place: Place, rng: Random) -> tuple[str, Undo]:
    cluster = rng.choice(CLUSTERS)
    action, details = rng.choice(
        [
            ("cut", {"direction": rng.choice(["both", "to_broker", "to_client"])}),
            ("refuse", {}),
            ("flap", {"up_ms": rng.randrange(200, 1500), "down_ms": rng.randrange(200, 1500)}),
            ("delay", {"delay_ms": rng.randrange(20, 400)}),
        ]
    )
    place.link(action, cluster, **details)
    words = ", ".join(f"{name} {value}" for name, value in details.items())
    return f"link of {cluster}: {action} {words}".rstrip(), lambda: place.link("heal", cluster)


FAULTS: tuple[Fault, ...] = (
    kill_a_broker,
    kill_a_process,
    kill_a_holder,
    stop_a_holder,
    stop_a_service,
    flush_valkey,
    break_a_link,
    switch_a_target,
    replace_the_tree,
    lose_a_leaf,
)


def _kill(place: Place, name: str) -> tuple[str, Undo]:
    place.kill(name)
    return f"kill -9 of {name}", nothing


def _a_holder(place: Place, rng: Random) -> int:
    """Return a pool process of the worker that runs tasks."""
    return rng.choice(eventually(lambda: sorted(place.pool()), "the worker has its pool"))


@dataclass
class Report:
    """Faults and results of a soak."""

    seed: int
    faults: list[str] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)
    anomalies: list[str] = field(default_factory=list)
    records: int = 0


def soak(place: Place, seconds: float, seed: int, tell: Callable[[str], None]) -> Report:
    """Run random faults for the given time, in rounds; `tell` gets a line for every event."""
    report, rng = Report(seed), Random(seed)
    began = time.monotonic()

    def told(line: str) -> None:
        tell(f"{time.monotonic() - began:7.1f} s  {line}")

    rounds = max(1, round(seconds / ROUND_SECONDS))
    for _ in range(rounds):
        with Run(place, seed=rng.getrandbits(32), rate=RECORDS_PER_SECOND) as run:
            end = time.monotonic() + seconds / rounds
            while time.monotonic() < end:
                run.flow(rng.uniform(*QUIET_SECONDS))
                for what in _one_fault(place, rng, run):
                    report.faults.append(f"{time.monotonic() - began:.1f} s {what}")
                    told(what)
            told("healed; waiting for rest")
        report.counts.append(run.verdict.counts())
        report.anomalies += run.verdict.anomalies
        report.records += run.verdict.sends["ok"]
        told(str(dict(kinds(run.verdict)) or "no anomalies"))
    return report


def _one_fault(place: Place, rng: Random, run: Run) -> Iterator[str]:
    fault, duration = rng.choice(FAULTS), rng.uniform(*FAULT_SECONDS)
    words, undo = fault(place, rng)
    yield f"{words}, for {duration:.1f} s" if undo is not nothing else words
    run.flow(duration)
    undo()


@contextmanager
def own_place() -> Iterator[Place]:
    """Yield an estate that ends with the block."""
    with tempfile.TemporaryDirectory(prefix="treeline-soak-") as folder:
        home = Path(folder) / "home"
        estate = boot(home, FIVE_CLUSTERS)
        try:
            if estate.booted.returncode != 0:
                sys.exit(estate.booted.stdout + estate.booted.stderr)
            yield Place(estate)
        finally:
            treeline(home, "down", "--wipe")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--minutes", type=float, default=5.0)
    words.add_argument("--seed", type=int, default=None)
    given = words.parse_args()
    seed = secrets.randbits(32) if given.seed is None else given.seed

    def tell(line: str) -> None:
        print(line, flush=True)  # noqa: T201 - a program's output

    with own_place() as place:
        report = soak(place, given.minutes * 60, seed, tell)
    tell(f"seed {seed}: {len(report.faults)} faults, {report.records} records, {len(report.anomalies)} anomalies")
    for line in report.anomalies[:MOST_TOLD]:
        tell(line)
    sys.exit(bool(report.anomalies))


if __name__ == "__main__":
    main()
