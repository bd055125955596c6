"""Distribution against MirrorMaker 2: the same records, the same brokers, one run; prints Markdown tables.

Two single-broker clusters are booted; one topic with four partitions, no compression. Throughput: a backlog exists
before the copier starts; measured from the first to the last commit on the target, with the CPU of the copier's
processes in the same span. Latency: records at a fixed rate; the added latency is that of a read_committed reader
on the target against one on the source, record by record. Every copy is counted: a lost, duplicated or reordered
record ends the run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import tempfile
import time
from pathlib import Path
from queue import Empty

sys.path.append(str(Path(__file__).resolve().parent.parent))

import records
from brokers import single_broker_clusters
from clusters import Topic
from copiers import Copier, Job, MirrorMaker, Treeline, profiler

PARTITIONS = 4
START_SECONDS = 120
QUIET_SECONDS = 4
CONTENDERS = {
    "mm2-eos": MirrorMaker("MirrorMaker 2, exactly-once", True),
    "mm2-alo": MirrorMaker("MirrorMaker 2, at-least-once", False),
    "ours-1": Treeline("Treeline, one worker", 1, {}),
    "ours-2": Treeline("Treeline, two workers", 2, {}),
    "python-1": Treeline("Treeline, one worker, Python loop", 1, {"TREELINE_RECORD_LOOP": "python"}),
}


def throughput(job: Job, copier: Copier, count: int) -> dict[str, float]:
    """Return records/s and CPU between the first and the last commit of a backlog."""
    topic = Topic(job.servers["target"], job.target_topic, PARTITIONS)
    deadline = time.monotonic() + START_SECONDS
    samples: list[tuple[float, int, float]] = []
    memory = 0
    while True:
        copier.check()
        now, ends, cpu = time.monotonic(), topic.committed_ends(), copier.cpu_seconds()
        memory = max(memory, copier.memory_bytes())
        if ends and (not samples or ends != samples[-1][1]):
            samples.append((now, ends, cpu))
        if not samples and now > deadline:
            raise SystemExit(f"{job.label} has not started after {START_SECONDS} s; see its log")
        if samples and samples[-1][1] >= count and now - samples[-1][0] > QUIET_SECONDS:
            break
        if samples and now - samples[-1][0] > START_SECONDS:
            raise SystemExit(f"{job.label} is stalled at {samples[-1][1]} of {count}")
        time.sleep(0.02)
    first, last = samples[0], samples[-1]
    records.check_copies(job.servers["target"], job.target_topic, PARTITIONS, count)
    copied = last[1] - first[1]
    return {
        "rate": copied / (last[0] - first[0]),
        "cpu": (last[2] - first[2]) / copied * 1e6,
        "memory": memory / 1e6,
    }


def _reader(servers: str, topic: str, count: int, ready: object, answers: object, name: str) -> None:
    answers.put((name, records.read_until(servers, topic, PARTITIONS, count, ready, 180)))  # type: ignore[attr-defined]


def latency(job: Job, copier: Copier, rate: int, seconds: float) -> dict[str, float]:
    """Return the milliseconds that the copier adds at a fixed rate, after a warm-up of a third of the time."""
    count = int(rate * seconds)
    answers: multiprocessing.Queue[tuple[str, dict[int, float]]] = multiprocessing.Queue()
    readers = []
    for end, name in (("source", job.source_topic), ("target", job.target_topic)):
        ready = multiprocessing.Event()
        reader = multiprocessing.Process(
            target=_reader, args=(job.servers[end], name, count, ready, answers, end), daemon=True
        )
        reader.start()
        readers.append((reader, ready))
    for _, ready in readers:
        if not ready.wait(60):
            raise SystemExit("a reader did not reach its topic's end")
    cpu = copier.cpu_seconds()
    records.send_at_rate(job.servers["source"], job.source_topic, PARTITIONS, rate, seconds)
    try:
        found = dict(answers.get(timeout=200) for _ in readers)
    except Empty:
        raise SystemExit(f"{job.label}: the readers did not end") from None
    cpu = copier.cpu_seconds() - cpu
    for name, arrived in found.items():
        if len(arrived) != count:
            raise SystemExit(f"{job.label}: {len(arrived)} of {count} records seen on {name}")
    added = sorted(found["target"][n] - found["source"][n] for n in range(count // 3, count))
    return {
        "p50": statistics.median(added),
        "p99": added[int(len(added) * 0.99)],
        "worst": added[-1],
        "cpu": cpu / count * 1e6,
    }


def _job(servers: dict[str, str], label: str, name: str, source: str, folder: Path) -> Job:
    target = CONTENDERS[name].target_topic(source, label)
    Topic(servers["target"], target, PARTITIONS).create()
    return Job(label, servers, source, target, PARTITIONS, folder)


def run_throughput(servers: dict[str, str], folder: Path, chosen: argparse.Namespace) -> None:
    """Print one table for each size."""
    for size in chosen.sizes:
        source = f"backlog-{size}"
        topic = Topic(servers["source"], source, PARTITIONS)
        topic.create()
        records.fill(servers["source"], source, PARTITIONS, chosen.records, size)
        print(f"\n| {chosen.records:,} records of {size} B | records/s | CPU s per million | most memory |")
        print("|---|---:|---:|---:|", flush=True)
        for name in chosen.contenders:
            label = f"t{size}{name.replace('-', '')}"
            job = _job(servers, label, name, source, folder)
            contender = CONTENDERS[name]
            if chosen.profile and isinstance(contender, Treeline):
                contender = Treeline(
                    contender.name, contender.workers, contender.variables, profiler(chosen.profile, label)
                )
            copier = contender.start(job)
            try:
                got = throughput(job, copier, chosen.records)
            finally:
                copier.stop()
            print(
                f"| {contender.name} | {got['rate']:,.0f} | {got['cpu']:.1f} | {got['memory']:,.0f} MB |",
                flush=True,
            )
            Topic(servers["target"], job.target_topic, PARTITIONS).delete()
        topic.delete()


def run_latency(servers: dict[str, str], folder: Path, chosen: argparse.Namespace) -> None:
    """Print one table for each rate.

    Each figure is the median over rounds in which the contenders take turns, since brokers get faster while they
    run.
    """
    for rate in chosen.rates:
        print(f"\n| {rate:,} records/s of 1000 B, added | p50 | p99 | worst | CPU s per million |")
        print("|---|---:|---:|---:|---:|", flush=True)
        found: dict[str, list[dict[str, float]]] = {name: [] for name in chosen.contenders}
        for turn in range(chosen.rounds):
            for name in chosen.contenders:
                found[name].append(one_latency(servers, folder, name, rate, f"{turn}", chosen.seconds))
        for name, rows in found.items():
            got = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
            print(
                f"| {CONTENDERS[name].name} | {got['p50']:.0f} ms | {got['p99']:.0f} ms | {got['worst']:.0f} ms "
                f"| {got['cpu']:.1f} |",
                flush=True,
            )


def one_latency(
    servers: dict[str, str], folder: Path, name: str, rate: int, turn: str, seconds: float
) -> dict[str, float]:
    """Measure one contender's latency on topics of its own."""
    label = f"l{rate}{name.replace('-', '')}t{turn}"
    source = f"paced-{label}"
    topic = Topic(servers["source"], source, PARTITIONS)
    topic.create()
    job = _job(servers, label, name, source, folder)
    copier = CONTENDERS[name].start(job)
    try:
        records.fill(servers["source"], source, PARTITIONS, 400, 1000)
        target = Topic(servers["target"], job.target_topic, PARTITIONS)
        deadline = time.monotonic() + START_SECONDS
        while target.committed_ends() < 400:
            copier.check()
            if time.monotonic() > deadline:
                raise SystemExit(f"{label} has not started; see its log")
            time.sleep(0.2)
        time.sleep(2)
        got = latency(job, copier, rate, seconds)
    finally:
        copier.stop()
    target.delete()
    topic.delete()
    return got


def main() -> None:
    """Run the chosen parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=["throughput", "latency"], default=["throughput", "latency"])
    parser.add_argument(
        "--contenders", nargs="+", choices=CONTENDERS, default=["mm2-eos", "mm2-alo", "ours-1", "ours-2"]
    )
    parser.add_argument("--records", type=int, default=1_000_000, help="backlog")
    parser.add_argument("--sizes", nargs="+", type=int, default=[1000, 100], help="bytes of a record's value")
    parser.add_argument("--rates", nargs="+", type=int, default=[1_000, 10_000], help="records a second")
    parser.add_argument("--seconds", type=float, default=30, help="length of a latency run")
    parser.add_argument("--rounds", type=int, default=3, help="latency runs of each contender and rate")
    parser.add_argument("--profile", type=Path, help="folder for profiles of Treeline's workers, by perf")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="treeline-bench-") as name:
        folder = Path(name)
        with single_broker_clusters(folder, ("source", "target")) as servers:
            try:
                if "throughput" in chosen.parts:
                    run_throughput(servers, folder, chosen)
                if "latency" in chosen.parts:
                    run_latency(servers, folder, chosen)
            except SystemExit:
                for log in sorted(folder.glob("*.log")):
                    print(f"--- {log.name}\n{log.read_text()[-1500:]}")
                raise


if __name__ == "__main__":
    main()
