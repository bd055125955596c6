"""A worker of the benchmark: threads of some distribution tasks, as in a worker session, without a database.

It reads its job as JSON from its argument and runs until SIGTERM. Leases always count as held.
"""

from __future__ import annotations

import json
import signal
import sys
import threading

from backend.domain.distribution import edges
from backend.domain.distribution.assignment import Task
from backend.domain.distribution.edges import (
    Desired,
    DistributedStream,
    EdgePlan,
    Endpoint,
    HeaderNames,
    LeafInbound,
    TopicLife,
)
from backend.domain.tree import tree_shape
from backend.kafka.copy.control_plane import ControlPlane
from backend.settings import settings
from workers.distribution.distributor import DistributorThread
from workers.distribution.worker_session import copy_limits

STREAM = "bench/distribution/main/records"


def unit_plans(task: dict) -> dict[Task, EdgePlan]:
    """Return the plans of the tree of two clusters, from source to target."""
    document = {"level": 1, "children": [{"cluster": "source"}, {"cluster": "target"}]}
    root = tree_shape.parse(document, {"source", "target"})
    endpoints = {
        name: Endpoint(name=name, number=number, bootstrap_servers=task["servers"][name], properties={})
        for number, name in ((1, "source"), (2, "target"))
    }
    stream = DistributedStream(
        stream=STREAM,
        partitions=task["partitions"],
        technical_names={"source": task["source_topic"], "target": task["target_topic"]},
        topics={"source": TopicLife(incarnation=1), "target": TopicLife(incarnation=1)},
    )
    knobs = settings()
    headers = HeaderNames(flags=knobs.copy_flags_header, origin=knobs.copy_origin_header, write_origin=True)
    targets = tree_shape.default_targets(root)
    return edges.plans(
        Desired(
            root=root,
            targets=targets,
            endpoints=endpoints,
            leaves={
                "source": LeafInbound(version=1, ever=frozenset({("target", 1)})),
                "target": LeafInbound(version=1, ever=frozenset({("source", 1)})),
            },
            known_origins=frozenset({1, 2}),
            streams=[stream],
            buckets=knobs.partition_buckets,
            headers=headers,
        )
    )


def main() -> None:
    """Run the tasks until SIGTERM."""
    task = json.loads(sys.argv[1])
    plans = unit_plans(task)
    threads = []
    for bucket in task["units"]:
        unit = Task("source", 1, bucket)
        threads.append(
            DistributorThread(unit, 1, copy_limits(settings()), lambda _: None, ControlPlane(), plans[unit], 1)
        )
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    for thread in threads:
        thread.start()
    stopping.wait()
    for thread in threads:
        thread.stop()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
