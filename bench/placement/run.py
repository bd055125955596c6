"""Benchmark of replica placement: brokers join or leave, replication factors grow, or racks become known.

The job (`spark/jobs/replica_placement.py`) runs on two cores; the time is that of the whole process, including
Spark's start, and the memory is the highest sum of PSS of all its processes. The job's output is counted again
here, independently of the job: moves, replicas and leaders of brokers, racks. The peer is the proposal of Kafka's
own tool for the same partitions (`kafka-reassign-partitions --generate`: the computation alone, by the tool's own
method, without a cluster).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path += [str(Path(__file__).resolve().parent.parent), str(Path(__file__).resolve().parent.parent / "offsets")]

from memory import PeakMemory

from backend.estate.programs.jars import classpath, ensure_jars, java
from backend.placement.initial import initial
from backend.placement.plan import make
from backend.placement.problem import Problem, Replicas
from backend.placement.request_document import read_brokers
from backend.settings import PROJECT_ROOT, settings

FACTOR, RACKS, BROKERS = 3, 12, 3000
PER_TOPIC = 400
CHANGES = ("come", "leave", "factor", "racks", "racks-by-id")
NEW_RACKS = ("racks", "racks-by-id")
"""Changes in which racks become known: in any order of ids, or in blocks of neighbouring ids.

No partition that was placed without racks then spans as many as it could, and most are in a single one.
"""
MOST_SECONDS = {1_000_000: 60.0, 10_000_000: 600.0}
"""Time limit that the product promises, by number of replicas."""


@dataclass(frozen=True)
class Cluster:
    """A large cluster that was balanced once, with partitions in any order.

    Replicas are spread over its racks, or over brokers alone if racks are new.
    """

    replicas: Replicas

    @staticmethod
    def of(partitions: int, brokers: int, change: str) -> Cluster:
        rows = broker_rows(brokers, change)
        known = [{"id": row["id"]} for row in rows] if change in NEW_RACKS else rows
        placed = initial(read_brokers(known), partitions, FACTOR)
        return Cluster(placed.some(np.random.default_rng(7).permutation(partitions)))

    def write(self, file: Path) -> None:
        at = np.arange(len(self.replicas))
        lists = pa.ListArray.from_arrays(
            pa.array(self.replicas.starts.astype(np.int32)), pa.array((self.replicas.brokers + 1).astype(np.int32))
        )
        names = pa.array([f"topic-{number:05}" for number in range(int(at[-1]) // PER_TOPIC + 1)])
        topics = pa.DictionaryArray.from_arrays(pa.array((at // PER_TOPIC).astype(np.int32)), names)
        sizes = np.random.default_rng(8).integers(0, 10**9, len(at))
        columns = {"topic": topics, "partition": at % PER_TOPIC, "replicas": lists, "size_bytes": sizes}
        pq.write_table(pa.table(columns), file)


def broker_rows(count: int, change: str) -> list[dict[str, Any]]:
    """Return the brokers of the request; ids begin with 1."""
    racks = np.arange(count) % RACKS
    if change == "racks":
        racks = np.random.default_rng(9).permutation(racks)
    elif change == "racks-by-id":
        racks = np.sort(racks)
    return [{"id": at + 1, "rack": f"az{rack:02}"} for at, rack in enumerate(racks.tolist())]


def asked(change: str, brokers: int) -> dict[str, Any]:
    """Return the request without partitions."""
    count = brokers * 11 // 10 if change == "come" else brokers
    rows = broker_rows(count, change)
    leaving = brokers // 20 if change == "leave" else 0
    found: dict[str, Any] = {"brokers": rows, "target_brokers": [row["id"] for row in rows[leaving:]]}
    return {**found, "replication_factor": FACTOR + 1} if change == "factor" else found


def counted_again(cluster: Cluster, question: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Count the job's output again, without any code that the job used."""
    table = pq.read_table(folder / "partitions").sort_by([("topic", "ascending"), ("partition", "ascending")])
    lists = table["replicas"].combine_chunks()
    factor = question.get("replication_factor", FACTOR)
    after = lists.flatten().to_numpy().reshape(-1, factor) - 1
    before = cluster.replicas.brokers.reshape(-1, FACTOR)
    racks = np.sort(np.array([row["rack"] for row in question["brokers"]])[after], axis=1)
    targets = np.array(question["target_brokers"]) - 1
    loads, leads = (np.bincount(each.ravel(), minlength=len(question["brokers"])) for each in (after, after[:, 0]))
    ordered = np.sort(after, axis=1)
    return {
        "moves": int((~(after[:, :, None] == before[:, None, :]).any(axis=2)).sum()),
        "replicas": [int(loads[targets].min()), int(loads[targets].max())],
        "leaders": [int(leads[targets].min()), int(leads[targets].max())],
        "elsewhere": int(loads.sum() - loads[targets].sum()),
        "racks_shared": int((racks[:, 1:] == racks[:, :-1]).any(axis=1).sum()),
        "brokers_twice": int((ordered[:, 1:] == ordered[:, :-1]).any(axis=1).sum()),
        "partitions": len(after),
    }


def run_job(question: Path, partitions: Path, output: Path, heap: int) -> tuple[dict[str, Any], float, int]:
    """Run the job; returns (its document, seconds, bytes of memory)."""
    job = [sys.executable, str(PROJECT_ROOT / "spark/jobs/replica_placement.py"), str(question), str(partitions)]
    begun = time.monotonic()
    with (output.parent / "job.log").open("wb") as log:
        process = subprocess.Popen(
            [*job, str(output), "--heap-megabytes", str(heap)], stdout=log, stderr=log, cwd=PROJECT_ROOT
        )
        with PeakMemory(process.pid) as memory:
            code = process.wait()
    seconds = time.monotonic() - begun
    if code:
        sys.exit(f"the job failed:\n{(output.parent / 'job.log').read_text()[-3000:]}")
    return json.loads((output / "plan.json").read_text()), seconds, memory.bytes


def solver_alone(cluster: Cluster, question: dict[str, Any]) -> tuple[float, str]:
    """Solve without Spark in this process; returns (seconds, digest of the plan)."""
    count = len(cluster.replicas)
    at = np.arange(count)
    brokers = read_brokers(question["brokers"])
    holds = np.isin(brokers.broker_ids, question["target_brokers"])
    problem = Problem(
        **{name: getattr(brokers, name) for name in ("broker_ids", "rack_of", "racks")},
        may_hold=holds,
        may_lead=holds,
        topics=tuple(f"topic-{number:05}" for number in range((count - 1) // PER_TOPIC + 1)),
        topic_of=at // PER_TOPIC,
        numbers=at % PER_TOPIC,
        now=cluster.replicas,
        wanted=np.full(count, question.get("replication_factor", FACTOR), np.int64),
        size_bytes=np.random.default_rng(8).integers(0, 10**9, count),
        is_fixed=np.zeros(count, bool),
    )
    begun = time.monotonic()
    plan = make(problem)
    return time.monotonic() - begun, plan.digest


def peer(cluster: Cluster, question: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the proposal of Kafka's tool, which cannot change replication factors."""
    jars = PROJECT_ROOT / "tests" / "kafka_tools.xml"
    cache = settings().cache
    paths = ":".join(classpath(each) for each in (ensure_jars(cache, print, pom=jars, name="tools"),))
    racks = {row["id"]: row["rack"] for row in question["brokers"]}
    file = folder / "peer.txt"
    with file.open("w") as out:
        out.write(" ".join(f"{each}:{racks[each]}" for each in question["target_brokers"]) + "\n")
        for at, row in enumerate((cluster.replicas.brokers.reshape(-1, FACTOR) + 1).tolist()):
            out.write(f"topic-{at // PER_TOPIC:05} {at % PER_TOPIC} {','.join(map(str, row))}\n")
    command = [java(), "-Xmx6g", "-cp", paths, str(Path(__file__).with_name("Generate.java")), str(file)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def measure(replicas: int, brokers: int, change: str, heap: int, *, with_peer: bool) -> bool:
    """Print one row of the table; return True if all promises hold."""
    cluster = Cluster.of(replicas // FACTOR, brokers, change)
    question = asked(change, brokers)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cluster.write(folder / "partitions.parquet")
        (folder / "question.json").write_text(json.dumps(question))
        plan, seconds, memory = run_job(
            folder / "question.json", folder / "partitions.parquet", folder / "out", heap
        )
        again = counted_again(cluster, question, folder / "out")
        kernel, digest = solver_alone(cluster, question)
        other = peer(cluster, question, folder) if with_peer and change != "factor" else None
    sound = (
        again["moves"] == plan["moves"] == plan["lower_bound"]
        and plan["digest"] == digest
        and all(high - low <= 1 for low, high in (again["replicas"], again["leaders"]))
        and not (again["racks_shared"] or again["brokers_twice"] or again["elsewhere"] or plan["violations"])
        and again["partitions"] == replicas // FACTOR
    )
    theirs = f"{other['moves']:,}; {other['least']} to {other['most']}" if other else ""
    print(
        f"| {replicas:,} on {brokers:,}, {change} | {plan['moves']:,} | {plan['lower_bound']:,} "
        f"| {again['replicas'][0]} to {again['replicas'][1]} | {again['leaders'][0]} to {again['leaders'][1]} "
        f"| {plan['leader_changes']:,} | {seconds:.1f} s | {kernel:.1f} s | {memory / 1e9:.1f} GB | {theirs} |"
    )
    limit = MOST_SECONDS.get(replicas)
    if not sound:
        print(f"  promise broken: {again}, {plan['violations']}, digests {plan['digest']} and {digest}")
    if limit is not None and seconds > limit:
        print(f"  promise broken: slower than {limit:g} s")
    return sound and (limit is None or seconds <= limit)


def main() -> int:
    """Print a table; return exit code 1 if a promise does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, nargs="*", default=[1_000_000])
    parser.add_argument("--brokers", type=int, default=BROKERS)
    parser.add_argument("--changes", nargs="*", choices=CHANGES, default=list(CHANGES))
    parser.add_argument("--heap-megabytes", type=int, default=3000)
    parser.add_argument("--no-peer", action="store_true")
    given = parser.parse_args()
    print(
        "| change | moves | minimum | replicas per broker | leaders | leader changes | job | solver alone "
        "| memory | Kafka's tool: moves; replicas |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    )
    good = [
        measure(replicas, given.brokers, change, given.heap_megabytes, with_peer=not given.no_peer)
        for replicas in given.replicas
        for change in given.changes
    ]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
