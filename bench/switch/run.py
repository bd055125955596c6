"""Cluster switches under load: what is lost, doubled, disordered, and for how long producers wait.

    python bench/switch/run.py [--switches 10] [--groups 20] [--out FOLDER]

Boots the default estate (five clusters) in a temporary home; 1,000 records/s by four producers and 20 groups of
`treeline_client`; planned switches forth and back, then an emergency: the active cluster's broker is killed and
the switch commanded. Then the checker (`checker.py`) compares all histories with the logs of all clusters. The run
fails if an anomaly is found, or a limit is missed. No peer does this: the reference keeps order by a fixed wait of
60 s times the distance, which is printed beside.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent))

import checker
import httpx2
from clients import RECORDS_PER_SECOND, STREAM
from local_estates import ESTATES, Estate, estate

from backend.kafka.client_config import client_config
from backend.kafka.log_ends import ends, partitions
from backend.kafka.log_ranges import LogRange, messages

CLUSTERS = ("cluster-1", "cluster-4")
MOST_UNAVAILABLE_SECONDS, MOST_EMERGENCY_SECONDS = 2.0, 5.0
BETWEEN_SECONDS, SETTLE_SECONDS = 5.0, 120.0
CONSUMER_PROCESSES = 2
TENANT = {"tenant": "acme"}
ENVIRONMENT = "/tenants/acme/instances/retail/environments/prod"


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--switches", type=int, default=10)
    asked.add_argument("--groups", type=int, default=20)
    asked.add_argument("--out", type=Path, help="Keep histories and the report in this folder.")
    asked.add_argument("--no-emergency", action="store_true")
    options = asked.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="treeline-switch-") as temporary,
        estate(ESTATES / "unbalanced.yaml") as one,
    ):
        folder = options.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        one.up("--no-verify")
        report = run(one, folder, options)
        (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n")
        show(report, options)
        if report["anomalies"] or report["limits_missed"]:
            sys.exit(1)


def run(one: Estate, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The load, the switches, the checker."""
    status = one.status()
    with one.client() as client:
        answer = client.patch(ENVIRONMENT, json={"offset_mode": "exact"})
        assert answer.status_code == 200, answer.text
        applications = begin(status, folder, options.groups)
        try:
            time.sleep(15)
            switches = []
            for number in range(options.switches):
                switches.append(planned(client, CLUSTERS[number % 2], CLUSTERS[1 - number % 2]))
                time.sleep(BETWEEN_SECONDS)
            active = CLUSTERS[options.switches % 2]
            lost = None if options.no_emergency else emergency(one, client, active)
            (folder / "stop").touch()
            applications[0].wait(120)
            settle(status, folder)
            (folder / "end").touch()
            for each in applications:
                each.wait(60)
        finally:
            for each in applications:
                each.kill()
                each.wait()
    seen = checker.histories(folder)
    logs = {name: log_of(row["bootstrap_servers"]) for name, row in status["clusters"].items()}
    found, also = checker.anomalies(seen, logs, CLUSTERS)
    return judged(seen, found, also, switches, lost)


def begin(status: dict[str, Any], folder: Path, groups: int) -> list[subprocess.Popen[bytes]]:
    """The applications' processes, the producers' first."""
    program = [sys.executable, str(Path(__file__).parent / "clients.py")]
    place = [status["control_plane"], status["admin_token"], str(folder)]
    each = groups // CONSUMER_PROCESSES
    runs = [["producers", *place]]
    runs += [["consumers", *place, str(n * each), str(each)] for n in range(CONSUMER_PROCESSES)]
    return [subprocess.Popen([*program, *words]) for words in runs]


def planned(client: httpx2.Client, source: str, target: str) -> dict[str, Any]:
    """One planned switch, followed to its end."""
    body = {"from": source, "to": target, **TENANT}
    deadline = time.monotonic() + 60
    while True:
        plan = client.post("/switches/plan", json=body).json()
        if not plan.get("blockers"):
            break
        if time.monotonic() > deadline:
            sys.exit(f"the switch is blocked: {plan['blockers']}")
        time.sleep(1)
    answer = client.post("/switches", json={**body, "plan_digest": plan["digest"]})
    assert answer.status_code == 202, answer.text
    return followed(client, answer.json()["id"], plan["expected_ms"])


def followed(client: httpx2.Client, switch: str, expected_ms: int) -> dict[str, Any]:
    """A switch that has ended, with what was expected of it."""
    while True:
        row: dict[str, Any] = client.get(f"/switches/{switch}").json()
        if row["state"] in ("completed", "aborted", "failed"):
            print(f"  {row['from']} -> {row['to']} {row['state']} {row['reason'] or ''}", file=sys.stderr)
            return {**row, "expected_ms": expected_ms}
        time.sleep(0.2)


def emergency(one: Estate, client: httpx2.Client, active: str) -> dict[str, Any]:
    """The active cluster's broker is killed for as long as the switch takes; what came of it."""
    broker = next(row for row in one.status()["processes"] if row["name"] == f"kafka:{active}:1")
    os.kill(broker["pid"], signal.SIGSTOP)
    target = CLUSTERS[1 - CLUSTERS.index(active)]
    commanded = time.time()
    body = {"from": active, "to": target, **TENANT, "mode": "emergency"}
    answer = client.post("/switches", json=body)
    assert answer.status_code == 202, answer.text
    row = followed(client, answer.json()["id"], 0)
    time.sleep(BETWEEN_SECONDS)
    os.kill(broker["pid"], signal.SIGCONT)
    return {**row, "commanded": commanded}


def settle(status: dict[str, Any], folder: Path) -> None:
    """Until no log grows any more, and all groups have had the time to read."""
    deadline, before = time.monotonic() + SETTLE_SECONDS, None
    while time.monotonic() < deadline:
        now = {name: lengths(row["bootstrap_servers"]) for name, row in status["clusters"].items()}
        if now == before:
            break
        before = now
        time.sleep(8)
    time.sleep(10)


def lengths(servers: str) -> dict[Any, Any]:
    """Where the stream's partitions end on a cluster."""
    config = client_config(servers, {})
    topic = topic_on(servers)
    return ends(config, partitions(config, topic, 10), 10)


TOPICS: dict[str, str] = {}


def topic_on(servers: str) -> str:
    """What the stream is called on a cluster."""
    if servers not in TOPICS:
        config = client_config(servers, {})
        TOPICS[servers] = next(
            name for name in (f"acme-retail-prod-{STREAM}", f"acme-prod-{STREAM}") if partitions(config, name, 10)
        )
    return TOPICS[servers]


def log_of(servers: str) -> list[list[str]]:
    """The ids of each partition in log order."""
    config, found = client_config(servers, {}), {}
    wanted = [
        LogRange(log=place[1], topic=place[0], partition=place[1], first=low, end=end)
        for place, (low, end) in lengths(servers).items()
    ]
    for one, some in messages(config, wanted):
        ids = found.setdefault(one.partition, [])
        ids += [(message.value() or b"").decode().rpartition(":")[0] for message in some]
    return [found[partition] for partition in sorted(found)]


def judged(
    seen: checker.Histories, found: list[str], also: dict[str, Any], switches: list[dict[str, Any]], lost: Any
) -> dict[str, Any]:
    """The report of the run."""
    longest = [longest_wait(seen, row) for row in switches]
    missed = [f"producers waited {s:.2f} s" for s in longest if s > MOST_UNAVAILABLE_SECONDS]
    missed += [f"{row['id']}: {row['state']} {row['reason']}" for row in switches if row["state"] != "completed"]
    there = None
    if lost is not None:
        there = max(at for at in seen.arrivals.get(lost["generation"], [float("inf")])) - lost["commanded"]
        if there > MOST_EMERGENCY_SECONDS:
            missed.append(f"the last client was there after {there:.2f} s")
    return {
        "records_given": seen.given,
        "acknowledged": len(seen.acknowledged),
        "failed": dict(list(seen.failed.items())[:20]),
        "failed_count": len(seen.failed),
        "anomalies": found[:200],
        "anomalies_count": len(found),
        **also,
        "longest_waits_s": [round(s, 3) for s in longest],
        "held_ms": [row["report"] and row["report"]["producers_held_ms"] for row in switches],
        "emergency_all_there_s": there,
        "limits_missed": missed,
        "switches": switches,
        "emergency": lost,
    }


def longest_wait(seen: checker.Histories, row: dict[str, Any]) -> float:
    """Of the records given while a switch ran: the longest time until one was acknowledged."""
    from datetime import datetime

    began, ended = (
        datetime.fromisoformat(row["phases"][n][which]).timestamp()
        for n, which in ((0, "started_at"), (-1, "ended_at"))
    )
    return max((told - given for given, told in seen.waits if began - 1 < given < ended + 1), default=0.0)


def show(report: dict[str, Any], options: argparse.Namespace) -> None:
    """A Markdown table."""
    waits, held = report["longest_waits_s"], [ms for ms in report["held_ms"] if ms is not None]
    print(
        f"| {options.switches} planned switches, {RECORDS_PER_SECOND} records/s, {options.groups} groups | measured | limit |"
    )
    print("|---|---:|---:|")
    if waits:
        print(f"| longest wait of a record for its acknowledgement, median | {statistics.median(waits):.2f} s | |")
        print(
            f"| the same, worst switch | {max(waits):.2f} s | {MOST_UNAVAILABLE_SECONDS:g} s (reference: 60 s x distance) |"
        )
        print(f"| producers held, median and worst | {statistics.median(held):.0f} and {max(held)} ms | |")
    if report["emergency_all_there_s"] is not None:
        print(
            f"| emergency: all clients on the new cluster | {report['emergency_all_there_s']:.2f} s | {MOST_EMERGENCY_SECONDS:g} s |"
        )
    print(
        f"| records given, acknowledged, failed | {report['records_given']:,}, {report['acknowledged']:,}, {report['failed_count']} | |"
    )
    print(f"| read again by all groups together | {report['read_again']} | 0 |")
    print(f"| anomalies | {report['anomalies_count']} | 0 |")
    print(
        f"| out of order on clusters that were never active (not promised) | {report['disordered_elsewhere']} | |"
    )
    for each in [*report["limits_missed"], *report["anomalies"][:20]]:
        print(each, file=sys.stderr)


if __name__ == "__main__":
    main()
