"""The same schedules of faults on a real three-broker Kafka and in the model.

Compared are losses, whether the model permits what the cluster's leaders and ISR did, and the longest time without
an acknowledgement in either.

The real cluster has a controller of its own, and one idempotent producer with acks=all sends 200 records a
second. The model runs fixed mode with the cluster's times (session 3 s, replica lag 2 s), ten seeds. Copies that
the producer itself sent again in a new epoch break nothing that Kafka promises, and have a column of their own.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.drills.cluster import NODES, Cluster
from tests.support.drills.compared import in_the_model, permitted
from tests.support.drills.drill import Observed, run
from tests.support.drills.faults import Fault
from tests.support.drills.promises import broken, sent_again

SEEDS = 10
SCHEDULES: Mapping[str, tuple[list[Fault], float]] = MappingProxyType(
    {
        "leader killed": ([Fault(1000, "crash", 1), Fault(5500, "restart", 1)], 8),
        "follower stands still": ([Fault(1000, "pause", 3), Fault(6000, "resume", 3)], 8),
        "leader stands still": ([Fault(1000, "pause", 1), Fault(7000, "resume", 1)], 9),
        "two killed in turn": (
            [
                Fault(1000, "crash", 1),
                Fault(5500, "crash", 2),
                Fault(9500, "restart", 2),
                Fault(10000, "restart", 1),
            ],
            12,
        ),
        "all killed": (
            [*(Fault(1000, "crash", node) for node in NODES), *(Fault(5500, "restart", node) for node in NODES)],
            8,
        ),
        "all killed, back at once": (
            [*(Fault(1000, "crash", node) for node in NODES), *(Fault(1100, "restart", node) for node in NODES)],
            8,
        ),
    }
)


def main() -> int:
    """Run all schedules, print a line for each; return 1 on a loss, a duplicate or a forbidden step."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--times", type=int, default=1, help="How often each schedule is run on the real cluster.")
    times = asked.parse_args().times
    print(
        f"{'schedule':26}{'runs':>5}{'records':>9}{'sent again':>12}{'broken':>8}{'permitted':>11}"
        f"{'kafka, longest gap':>22}{'model':>18}"
    )
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder))
        try:
            cluster.start()
            for name, (faults, seconds) in SCHEDULES.items():
                seen = [run(cluster, f"drill-{time.time_ns()}", faults, seconds) for _ in range(times)]
                wrong += _tell(name, faults, seen)
        finally:
            cluster.end()
    return 1 if wrong else 0


def _tell(name: str, faults: list[Fault], seen: list[Observed]) -> int:
    failed = sum(bool(broken(each)) for each in seen)
    allowed = sum(permitted(each).permitted for each in seen)
    gaps = [max(gap.length_ms for gap in each.gaps) for each in seen]
    runs = [in_the_model(faults, seed) for seed in range(SEEDS)]
    failed += sum(
        each.world.history.violated is not None or bool(each.world.history.expected_losses) for each in runs
    )
    model = [each.longest_gap_ms for each in runs]
    records = sum(len(each.acknowledged) for each in seen)
    again = sum(len(sent_again(each)) for each in seen)
    print(
        f"{name:26}{len(seen):>5}{records:>9,}{again:>12,}{failed:>8}{f'{allowed} of {len(seen)}':>11}"
        f"{f'{statistics.median(gaps):,.0f} ms':>22}{f'{statistics.median(model):,.0f} ms':>18}",
        flush=True,
    )
    return failed + len(seen) - allowed


if __name__ == "__main__":
    sys.exit(main())
