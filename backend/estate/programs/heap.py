"""Heap size of each local broker.

The estate file may set it for a cluster (`heap_mb`). Otherwise a broker gets what its declared partitions need,
and at least `ROOMY_MB` for those that are created while the estate runs, as far as half of the machine's memory,
shared by all brokers, allows. The JVM takes heap only when it needs it and gives it back, so a high limit costs an
idle broker nothing.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from backend.domain.topics.replica_defaults import AUTOMATIC_FACTOR
from backend.estate.document import ClusterSpec, Estate

LEAST_MB = 256
ROOMY_MB = 1024
"""Holds 10,000 partitions and their traffic on one broker (tests/faults/test_many_partitions.py)."""
MOST_MB = 16 * 1024
BASE_MB = 192
REPLICA_KB = 48
"""Heap for one replica with its producers' state and one client that fetches it; 25 KB were measured at rest."""
BROKERS_SHARE = 0.5
"""Share of the machine's memory for the heaps of all brokers together; the rest is for Spark, PostgreSQL, the
workers and the page cache."""


@dataclass(frozen=True, kw_only=True)
class Heap:
    """The heap of one cluster's brokers in MB, and the estimated need of its declared partitions."""

    megabytes: int
    needed: int
    replicas: int
    """Declared replicas on each broker."""

    @property
    def is_short(self) -> bool:
        return self.megabytes < self.needed


def heap_of(cluster: ClusterSpec, estate: Estate, machine_mb: int) -> Heap:
    """Return the heap of each of the cluster's brokers on a machine with this much memory."""
    replicas = declared_replicas(cluster, estate)
    needed = BASE_MB + -(-replicas * REPLICA_KB // 1024)
    if cluster.heap_mb is not None:
        return Heap(megabytes=cluster.heap_mb, needed=needed, replicas=replicas)
    share = int(machine_mb * BROKERS_SHARE) // sum(each.brokers for each in estate.clusters)
    megabytes = max(LEAST_MB, min(MOST_MB, share, max(ROOMY_MB, needed)))
    return Heap(megabytes=megabytes, needed=needed, replicas=replicas)


def heap_warnings(estate: Estate, machine_mb: int) -> list[str]:
    """Return warnings about brokers that may run out of memory, by declared partitions or machine size."""
    found = []
    heaps = {cluster: heap_of(cluster, estate, machine_mb) for cluster in estate.clusters}
    for cluster, heap in heaps.items():
        if heap.is_short:
            advice = "raise its heap_mb" if cluster.heap_mb else "give the machine more memory, or set its heap_mb"
            found.append(
                f"{cluster.name}: a broker has {heap.megabytes} MB of heap, and its {heap.replicas:,} declared "
                f"replicas are expected to need {heap.needed} MB: {advice}"
            )
    together = sum(heap.megabytes * cluster.brokers for cluster, heap in heaps.items())
    if any(cluster.heap_mb for cluster in heaps) and together > machine_mb:
        found.append(f"the brokers may take {together} MB of heap together; this machine has {machine_mb} MB")
    return found


def declared_replicas(cluster: ClusterSpec, estate: Estate) -> int:
    """Return the replicas on each broker of the cluster once every declared stream has its topic there."""
    replicas = sum(
        stream.partitions * min(stream.replication_factor or AUTOMATIC_FACTOR, cluster.brokers)
        for tenant in estate.tenants.values()
        for instance in tenant.instances.values()
        for environment in instance.environments.values()
        for stream in environment.streams.values()
    )
    return -(-replicas // cluster.brokers)


def machine_memory_mb() -> int:
    """Return the memory of this machine or, if lower, the limit of the container."""
    found = [
        int(line.split()[1]) * 1024
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemTotal:")
    ]
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # ValueError: "max", which means no limit
            found.append(int(Path(limit).read_text()))
    return min(found) // 1024**2
