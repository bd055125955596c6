"""Committed offsets in numbers, in two parts; the first:

One single-broker cluster is booted and filled: one topic whose records are half its own and half copies of another
cluster's, and groups that commit in the broker's real `__consumer_offsets`, by requests. Then the job
(`spark/jobs/offset_timestamps.py`) runs on two cores. Time is the whole process, from the start of the interpreter
to its end; memory is the highest sum of PSS of all its processes (driver, JVM, Python workers), not of the broker.
The number of answers, and each answer for a sample of the groups, is held against a plain reading of the same
records: a wrong one ends the run. The peer is a Python reader of the same records that does nothing with them.

The second, what comes again after a switch of clusters, with MirrorMaker 2's checkpoints as its peer: rereads.py.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

import records
import rereads
from brokers import single_broker_clusters
from commits import Committers, commit_all
from confluent_kafka import Consumer, KafkaException, TopicPartition
from memory import PeakMemory

from backend.settings import PROJECT_ROOT

TOPIC, PARTITIONS = "records", 8
SAMPLE_GROUPS = 50
COORDINATOR_TRIES = 20
MOST_SECONDS, MOST_MEMORY_BYTES = 300, 4e9
"""Limits that the product promises for the default sizes."""


def request(servers: str, ends: dict[int, int]) -> dict[str, object]:
    """Return the job's request: every partition of the topic, from its first record to its end."""
    born = {
        "number": records.HERE,
        "stream": records.STREAM,
        "births": [[0, records.INCARNATION]],
        "seen": [],
        "known_origins": [records.HERE, records.ELSEWHERE],
        "holes": [],
    }
    return {
        "clusters": [{"cluster": "source", "bootstrap_servers": servers, "properties": {}}],
        "logs": [
            {
                "log": p,
                "cluster": "source",
                "topic": TOPIC,
                "partition": p,
                "range": {"log": p, "topic": TOPIC, "partition": p, "first": 0, "end": end},
                "born": born,
            }
            for p, end in ends.items()
        ],
    }


def run_job(folder: Path, asked: dict[str, object]) -> tuple[float, PeakMemory, dict[str, int]]:
    """Run the job; return seconds, memory, and the job's own report."""
    path = folder / "request.json"
    path.write_text(json.dumps(asked))
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(PROJECT_ROOT)}
    began = time.monotonic()
    with (folder / "job.out").open("w+") as out, (folder / "job.log").open("w") as log:
        job = subprocess.Popen(
            [sys.executable, "-m", "spark.jobs.offset_timestamps", path, folder / "answers"],
            env=environment,
            stdout=out,
            stderr=log,
        )
        with PeakMemory(job.pid) as memory:
            code = job.wait()
        seconds = time.monotonic() - began
        out.seek(0)
        said = out.read()
    if code != 0:
        raise SystemExit(f"the job failed: {(folder / 'job.log').read_text()[-3000:]}")
    return seconds, memory, json.loads(said)


def check(servers: str, folder: Path, committers: Committers) -> int:
    """Compare answers for some groups with a plain reading, and their total; return how many were compared."""
    names = {committers.name(group): group for group in range(committers.groups)}
    sample = set(random.Random(1).sample(sorted(names), min(SAMPLE_GROUPS, len(names))))
    rows, found = 0, {}
    for part in (folder / "answers" / "groups").glob("*.json"):
        with part.open() as lines:
            for line in lines:
                rows += 1
                row = json.loads(line)
                if row["group"] in sample:
                    found[row["group"], row["partition"], row["offset"]] = (
                        row.get("last_timestamp_ms"),
                        row.get("safe_timestamp_ms"),
                        {each["origin"]: (each["incarnation"], each["reached"]) for each in row.get("vector", ())},
                    )
    wanted = committers.groups * len(committers.final(0))
    if rows != wanted:
        raise SystemExit(f"{rows} answers for {wanted} commits")
    finals = {name: committers.final(names[name]) for name in sample}
    asked = {p: {final[p] for final in finals.values() if p in final} for p in committers.ends}
    stands = records.committed(servers, TOPIC, asked)
    expected = {(name, p, at): stands[p, at] for name, final in finals.items() for p, at in final.items()}
    for key in expected.keys() | found.keys():
        if expected.get(key) != found.get(key):
            raise SystemExit(f"{key}: the job says {found.get(key)}, a plain reading {expected.get(key)}")
    return len(expected)


def fill(servers: str, chosen: argparse.Namespace) -> Committers:
    """Produce records and commits."""
    began = time.monotonic()
    records.create_topic(servers, TOPIC, PARTITIONS)
    records.fill(servers, TOPIC, PARTITIONS, chosen.records)
    print(f"filled: {chosen.records:,} records in {time.monotonic() - began:.0f} s", flush=True)
    began = time.monotonic()
    # The topic of the offsets is created when a coordinator is first requested.
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "first"})
    ends = {p: chosen.records // PARTITIONS + (p < chosen.records % PARTITIONS) for p in range(PARTITIONS)}
    for _ in range(COORDINATOR_TRIES):
        try:
            consumer.committed([TopicPartition(TOPIC, 0)], 30)
            break
        except KafkaException as error:
            print(f"asked again: {error}", flush=True)  # the coordinator has not taken it over yet
            time.sleep(1)
    else:
        raise SystemExit("no coordinator answers for a group")
    consumer.close()
    committers = Committers(groups=chosen.groups, commits=chosen.commits // chosen.groups, ends=ends)
    made = commit_all(servers, TOPIC, committers)
    print(f"filled: {made:,} commits of {chosen.groups:,} groups in {time.monotonic() - began:.0f} s", flush=True)
    return committers


def run(folder: Path, servers: str, chosen: argparse.Namespace) -> None:
    """Fill, measure, check, print."""
    committers = fill(servers, chosen)
    seconds, memory, said = run_job(folder, request(servers, dict(committers.ends)))
    began, read = time.monotonic(), 0
    for messages in records.read(servers, TOPIC, dict.fromkeys(range(PARTITIONS))):
        read += len(messages)
    peer_seconds = time.monotonic() - began
    if read != chosen.records:
        raise SystemExit(f"{read} of {chosen.records} records are there")
    compared = check(servers, folder, committers)
    made = committers.groups * committers.commits
    print("\n| one run on two cores | records | commits | groups | seconds | most memory (PSS) |")
    print("|---|---:|---:|---:|---:|---:|")
    print(
        f"| timestamps and vectors, on Spark | {chosen.records:,} | {made:,} | {chosen.groups:,} "
        f"| {seconds:.0f} | {memory.bytes / 1e6:,.0f} MB |"
    )
    print(f"| peer: a Python reader of the records | {chosen.records:,} | | | {peer_seconds:.0f} | |")
    parts = ", ".join(f"{name} {size / 1e6:,.0f} MB" for name, size in sorted(memory.parts.items()))
    print(f"\n{said['groups']:,} answers, {compared:,} of them held against a plain reading. Memory: {parts}.")
    if seconds > MOST_SECONDS or memory.bytes > MOST_MEMORY_BYTES:
        raise SystemExit(f"limits are {MOST_SECONDS} s and {MOST_MEMORY_BYTES / 1e9:g} GB")


def main() -> None:
    """Run the benchmark, as `make bench` starts it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=["spark", "rereads"], default=["spark", "rereads"])
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--commits", type=int, default=1_000_000, help="of all groups together")
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--reread-records", type=int, default=400_000, help="of the part rereads")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="treeline-bench-") as name:
        folder = Path(name)
        try:
            if "spark" in chosen.parts:
                with single_broker_clusters(folder, ["source"]) as servers:
                    run(folder, servers["source"], chosen)
            if "rereads" in chosen.parts:
                rereads.run(folder, chosen.reread_records)
        except SystemExit:
            for log in sorted(folder.glob("*.log")):
                print(f"--- {log.name}\n{log.read_text()[-1500:]}")
            raise


if __name__ == "__main__":
    main()
