"""Speed of the replication lab: steps per second in one process, seconds for 10,000 seeds, and search times.

The peer, in the same run, is the same clock with as many empty steps: the cost of a heap and a call in Python,
below which no model can be. Time is the process's own CPU time, so that others on the machine matter little.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from backend.replication_lab.model.configuration import Configuration, Times
from backend.replication_lab.model.rules import FAITHFUL, FIXED, KIP_101, Rules
from backend.replication_lab.model.start_states import established, wake_all
from backend.replication_lab.model.world import Action
from backend.replication_lab.runs import timed
from backend.replication_lab.runs.search import Bounds, Found, search
from backend.replication_lab.runs.timed import Clock
from tests.unit.lab.random_faults import random_schedule, run

LEAST_STEPS_PER_SECOND = 100_000
MOST_SECONDS_FOR_SEEDS = 20 * 60
MOST_SECONDS_FOR_SEARCH = 5 * 60
SEEDS, SAMPLE = 10_000, 500
ROUNDS = 5
TRAFFIC = Configuration(producers=2, records=1_500, times=Times(request=5_000))
FAULTS: tuple[tuple[float, Action], ...] = (
    (500, ("slow", 3)),
    (2_000, ("fast", 3)),
    (2_500, ("pause", 2)),
    (4_000, ("resume", 2)),
    (5_000, ("cut", 1, 3)),
    (6_500, ("heal", 1, 3)),
    (8_000, ("slow_disk", 2)),
    (9_000, ("fast", 2)),
)
"""Seeds that faithful mode survives, so that both modes do the same work to the end."""
LASTS_MS = 20_000


def seconds(work: Callable[[], int]) -> tuple[float, int]:
    """Return the CPU seconds of this process, and the work's count."""
    begun = time.process_time()
    count = work()
    return time.process_time() - begun, count


def traffic(rules: Rules, seed: int) -> int:
    """Run two producers on three brokers while faults come and go; return the number of steps."""
    clock = Clock(established(TRAFFIC, rules, records=2), seed)
    wake_all(clock.world)
    for at, action in FAULTS:
        clock.at(at, action)
    clock.run(LASTS_MS)
    if clock.world.history.violated is not None:
        sys.exit(f"{rules.mode}, seed {seed}: {clock.world.history.what}")
    return len(clock.steps)


def nothing(steps: int) -> int:
    """Run the same clock with steps that only wake the next one."""
    clock = Clock(established(TRAFFIC, FIXED), 1)

    def step(_world: object, action: Action) -> bool:
        clock.wake(action, 1)
        return True

    performed, timed.perform = timed.perform, step  # type: ignore[assignment]
    try:
        for broker in range(10):
            clock.wake(("fetch", broker), 1)
        for _ in range(steps):
            clock.step()
    finally:
        timed.perform = performed
    return steps


def steps_per_second(rules: Rules) -> tuple[float, int]:
    """Return the best of some rounds: other processes only make it slower."""
    best, steps = 0.0, 0
    for seed in range(ROUNDS):
        spent, steps = seconds(lambda seed=seed: traffic(rules, seed))  # type: ignore[misc]
        best = max(best, steps / spent)
    return best, steps


def measure_steps() -> bool:
    """Measure both modes and the peer."""
    good = True
    for rules in (FAITHFUL, FIXED):
        speed, steps = steps_per_second(rules)
        spent, _ = seconds(lambda steps=steps: nothing(steps))  # type: ignore[misc]
        empty = steps / spent
        print(f"| {rules.mode}: steps/s, invariants on | {speed:,.0f} | {empty:,.0f} | {empty / speed:.1f} |")
        good &= speed >= LEAST_STEPS_PER_SECOND
    return good


def measure_seeds(*, whole: bool) -> bool:
    """Run random faults in fixed mode; a broken promise ends the run."""
    count = SEEDS if whole else SAMPLE

    def work() -> int:
        for seed in range(count):
            found = run(random_schedule(seed), FIXED, seed)
            if found.world.history.violated is not None or not found.settled:
                sys.exit(f"seed {seed} is not as promised")
        return count

    spent, _ = seconds(work)
    spent *= SEEDS / count
    print(f"| {SEEDS:,} seeds of random faults{'' if whole else f', from {count}'}: s | {spent:,.1f} | | |")
    return spent <= MOST_SECONDS_FOR_SEEDS


def searched(rules: Rules, bounds: Bounds, depth: int, title: str) -> tuple[Found, bool]:
    """Search three replicas from a log of two records."""
    configuration = Configuration(min_isr=1, records=1)
    start = established(configuration, rules, records=2, direct=True, prompt=True)
    begun = time.process_time()
    found = search(start, bounds, depth)
    spent = time.process_time() - begun
    print(
        f"| {title}: s ({found.states:,} states, {found.steps:,} steps, depth {found.depth}) | {spent:,.1f} | | |"
    )
    return found, spent <= MOST_SECONDS_FOR_SEARCH


def main() -> int:
    """Print a table; return 1 if a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--whole", action="store_true", help="all 10,000 seeds, and the search of fixed mode to depth 10"
    )
    given = parser.parse_args()
    print("| | lab | empty steps | ratio |\n|---|---:|---:|---:|")
    good = [measure_steps(), measure_seeds(whole=given.whole)]
    bounds = Bounds(crashes=1, expiries=2, attempts=2)
    found, in_time = searched(KIP_101, replace(bounds, crashes=0), 10, "search, KIP-101 alone, to its failure")
    good += [in_time, found.violated is not None]
    if given.whole:
        found, in_time = searched(FIXED, bounds, 10, "search, fixed mode")
        good += [in_time, found.violated is None]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
