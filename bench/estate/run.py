"""The local estate against the limits that it promises: start, verification, memory, idleness, recovery.

Boots estates of its own in temporary homes on free ports; prints a Markdown table. Nothing here has a peer: the
limits are the product's own (docs/benchmarks.md).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent))

import commits
import psutil
from local_estates import ESTATES, Estate, estate

from backend.settings import PROJECT_ROOT

IDLE_SECONDS = 30
SETTLE_SECONDS = 10


def cpu_seconds(processes: list[dict[str, Any]]) -> dict[int, float]:
    """Return the CPU time so far of everything but brokers, children included, by process id."""
    found: dict[int, float] = {}
    for row in processes:
        if row["name"].startswith("kafka:") or not row.get("pid"):
            continue
        root = psutil.Process(row["pid"])
        family = [root] if row["name"] == "supervisor" else [root, *root.children(recursive=True)]
        for process in family:
            times = process.cpu_times()
            found[process.pid] = times.user + times.system
    return found


def idle_share(running: Estate) -> float:
    """Return the percentage of one core that everything outside the brokers takes while nothing happens."""
    time.sleep(SETTLE_SECONDS)
    processes = running.status()["processes"]
    before = cpu_seconds(processes)
    time.sleep(IDLE_SECONDS)
    after = cpu_seconds(processes)
    # Processes that ended meanwhile are not counted; Spark ends its Python processes after a while.
    return sum(after[pid] - before.get(pid, 0.0) for pid in after) / IDLE_SECONDS * 100


def recovery_seconds(running: Estate) -> float:
    """Return the seconds from kill -9 of the worker, with 100,000 records in flight, to full recovery."""
    status = running.status()
    client = running.client()

    def epochs() -> dict[tuple[str, int], int] | None:
        rows = client.get("/trees/main/distributors").json()
        if any(row["state"] != "running" for row in rows):
            return None
        return {(row["cluster"], row["level"]): row["fencing_epoch"] for row in rows}

    before = wait_for(epochs)
    verify = subprocess.Popen(
        [sys.executable, "-m", "backend.cli", "verify", "--records", "20000", "--json"],
        cwd=PROJECT_ROOT,
        env={**os.environ, "TREELINE_HOME": str(running.home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert verify.stderr is not None
    next(line for line in verify.stderr if "arrivals" in line and not line.startswith("0 "))
    pid = next(row["pid"] for row in status["processes"] if row["name"] == "worker:shifts")
    os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()

    def moving() -> dict[tuple[str, int], int] | None:
        now = epochs()
        return now if now and all(now[edge] > before[edge] for edge in before) else None

    wait_for(moving)
    took = time.monotonic() - killed
    out, _ = verify.communicate()
    if verify.returncode:
        sys.exit(f"records lost or doubled by the kill: {out[:2000]}")
    return took


def commit_rows(running: Estate) -> list[tuple[str, str, str]]:
    """Return rows for the time from a commit to its application everywhere, and for the translation session."""
    servers = {name: row["bootstrap_servers"] for name, row in running.status()["clusters"].items()}
    applied = commits.measure(servers)
    memory = sum(row.get("memory_bytes") or 0 for row in running.status()["processes"])
    load = (
        f"{commits.GROUPS} groups, {commits.COMMITS_PER_SECOND} commits/s for {commits.SECONDS} s, "
        f"{commits.RECORDS_PER_SECOND} records/s"
    )
    return [
        (f"commit to applied on four clusters, p50 ({load})", f"{applied.median:.1f} s", ""),
        ("the same, p95", f"{applied.at(0.95):.1f} s", "10 s"),
        ("the same, longest; commits not applied", f"{applied.at(1):.1f} s; {applied.missing}", ""),
        ("memory of all processes with Spark (PSS)", f"{memory / 1e9:.2f} GB", "4.5 GB"),
        ("idle, outside the brokers, Spark resident", f"{idle_share(running):.1f} % of a core", "15 %"),
    ]


def wait_for(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 120
    while not (found := look()):
        if time.monotonic() > deadline:
            sys.exit("gave up waiting")
        time.sleep(0.05)
    return found


def main() -> None:
    """Run everything and print the table."""
    rows: list[tuple[str, str, str]] = []
    with estate(ESTATES / "unbalanced.yaml") as running:
        rows.append(("`make up`, caches warm, empty state folder", f"{running.up():.1f} s", "45 s"))
        rows.append(("a second `make up` while it runs", f"{running.up():.1f} s", "5 s"))
        took, answer = running.verify(1000)
        flags = answer["clusters"]["cluster-1"]["flags"]
        rows.append(("`treeline verify --records 1000`, five clusters", f"{took:.1f} s", "20 s"))
        rows.append(("flags on cluster-1", ", ".join(f"{k}: {v}" for k, v in flags.items()), "the contract's"))
        share = idle_share(running)
        rows.append(("idle, outside the brokers", f"{share:.1f} % of a core", "15 %"))
        memory = sum(row.get("memory_bytes") or 0 for row in running.status()["processes"])
        rows.append(("memory of all processes (PSS)", f"{memory / 1e9:.2f} GB", "3.0 GB"))
        rows += commit_rows(running)
        rows.append(
            (
                "kill -9 of the worker in 100,000 records, until all move again",
                f"{recovery_seconds(running):.1f} s",
                "15 s",
            )
        )
    with estate(ESTATES / "balanced.yaml") as running:
        running.up()
        took, answer = running.verify(1000)
        distinct = min(report["distinct"] for report in answer["clusters"].values())
        rows.append((f"the same on the balanced estate, {distinct} distinct on each", f"{took:.1f} s", "20 s"))
    print("| what | measured | limit |\n|---|---|---|")
    for what, measured, limit in rows:
        print(f"| {what} | {measured} | {limit} |")


if __name__ == "__main__":
    main()
