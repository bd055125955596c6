"""Cluster switches under load: lost, duplicated and disordered records, and how long producers hold.

    python bench/switch/run.py [--parts planned emergency] [--switches 10] [--groups 20] [--out FOLDER]

Boots the default estate (five clusters) in a temporary home; 1,000 records/s by four producers, and 20 groups of
`treeline_client`. Planned: switches back and forth, each followed to its end. Emergency: the active cluster's
broker is stopped, the switch started, and the broker resumed a while later, so that its unreplicated records
arrive late. Then the checker (`checker.py`) compares all histories with the logs of all clusters. The run fails
if it finds an anomaly or a limit is missed. The peer is the reference rule: a fixed wait of 60 s times the
distance.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent))

import checker
import httpx2
import logs
import report
from clients import PRODUCERS
from local_estates import ESTATES, Estate, estate

CLUSTERS = ("cluster-1", "cluster-4")
STREAMS = {"planned": "orders", "emergency": "payments"}
BEGIN_SECONDS = {"planned": 20.0, "emergency": 60.0}
BETWEEN_SECONDS, AWAY_SECONDS = 5.0, 20.0
CONSUMER_PROCESSES = 2
TENANT = {"tenant": "acme"}
ENVIRONMENT = "/tenants/acme/instances/retail/environments/prod"


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--parts", nargs="+", choices=list(STREAMS), default=list(STREAMS))
    asked.add_argument("--switches", type=int, default=10)
    asked.add_argument("--groups", type=int, default=20)
    asked.add_argument(
        "--stock", type=int, default=0, help="Groups of plain consumers, which do not use discovery."
    )
    asked.add_argument(
        "--begin-seconds", type=float, help="Seconds of load before the first switch on a running estate."
    )
    asked.add_argument("--out", type=Path, help="Folder for histories and reports.")
    options = asked.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="treeline-switch-") as temporary,
        estate(ESTATES / "unbalanced.yaml") as one,
    ):
        one.up("--no-verify")
        failed = [part for part in options.parts if not run(one, part, (options.out or Path(temporary)), options)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def run(one: Estate, part: str, out: Path, options: argparse.Namespace) -> bool:
    """Run one part with its load, switches and checks; return whether all is well."""
    folder, status, stream = out / part, one.status(), STREAMS[part]
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        sys.exit(f"{folder} has the histories of another run: give an empty folder")
    with one.client() as client:
        answer = client.patch(ENVIRONMENT, json={"offset_mode": "exact"})
        assert answer.status_code == 200, answer.text
        applications = begin(status, _from_to(client)["from"], stream, folder, options)
        try:
            wait_for_load(folder)
            time.sleep(BEGIN_SECONDS[part] if options.begin_seconds is None else options.begin_seconds)
            if part == "planned":
                switches = [planned(client, folder) for _ in range(options.switches)]
            else:
                switches = [emergency(one, client, folder)]
            (folder / "stop").touch()
            applications[0].wait(120)
            logs.settle(status, stream)
            (folder / "end").touch()
            for each in applications:
                each.wait(60)
            switches = [client.get(f"/switches/{row['id']}").json() | row for row in switches]
        finally:
            for each in applications:
                each.kill()
                each.wait()
    seen = checker.histories(folder)
    all_logs, way = logs.all_of(status, stream), [switches[0]["from"], *(row["to"] for row in switches)]
    found, counted = checker.anomalies(seen, all_logs.ids, CLUSTERS, emergency=part == "emergency")
    found += checker.written_elsewhere(all_logs.born, way)
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent)
    again = checker.read_again(seen, switches[0])
    told = {"commit": head.stdout.strip(), **report.make(part, seen, found, counted, switches, again)}
    (folder / "report.json").write_text(json.dumps(told, indent=1) + "\n")
    report.show(told, options.groups)
    return not told["anomalies"] and not told["limits_missed"]


def begin(
    status: dict[str, Any], active: str, stream: str, folder: Path, options: argparse.Namespace
) -> list[subprocess.Popen[bytes]]:
    """Start the applications' processes, the producers' first. `active`: the active cluster at the start."""
    program = [sys.executable, str(Path(__file__).parent / "clients.py")]
    place = [status["control_plane"], status["admin_token"], stream, str(folder)]
    each = options.groups // CONSUMER_PROCESSES
    runs = [["producers", *place]]
    runs += [["consumers", *place, str(n * each), str(each)] for n in range(CONSUMER_PROCESSES) if each]
    if options.stock:
        order = CLUSTERS if active == CLUSTERS[0] else CLUSTERS[::-1]
        there = [status["clusters"][cluster]["bootstrap_servers"] for cluster in order]
        topics = [logs.topic_of(servers, stream) for servers in there]
        runs.append(["stock", ",".join(there), ",".join(topics), stream, str(folder), "0", str(options.stock)])
    return [subprocess.Popen([*program, *words]) for words in runs]


def wait_for_load(folder: Path) -> None:
    """Wait until every producer has written; a switch before that would hold no producer."""
    deadline = time.monotonic() + 60
    files = [folder / f"producer-{number}.jsonl" for number in range(PRODUCERS)]
    while not all(file.exists() and file.stat().st_size for file in files):
        if time.monotonic() > deadline:
            sys.exit("no load: a producer has written nothing within 60 s")
        time.sleep(0.05)


def _from_to(client: httpx2.Client) -> dict[str, str]:
    place = {"tenant": "acme", "instance": "retail", "environment": "prod"}
    active = client.get("/discovery", params=place).json()["cluster"]
    return {"from": active, "to": CLUSTERS[1 - CLUSTERS.index(active)], **TENANT}


def planned(client: httpx2.Client, folder: Path) -> dict[str, Any]:
    """Run a planned switch to the other cluster to its end, then pause."""
    body = _from_to(client)
    plan = client.post("/switches/plan", json=body).json()
    if plan.get("blockers"):
        sys.exit(f"the switch is blocked: {plan['blockers']}")
    answer = client.post("/switches", json={**body, "plan_digest": plan["digest"]})
    assert answer.status_code == 202, answer.text
    row = followed(client, answer.json()["id"])
    (folder / "moved").touch()
    time.sleep(BETWEEN_SECONDS)
    return {**row, "expected_ms": plan["expected_ms"], "plan": {"items": plan["items"]}}


def followed(client: httpx2.Client, switch: str) -> dict[str, Any]:
    """Return a switch after it has ended."""
    while True:
        row: dict[str, Any] = client.get(f"/switches/{switch}").json()
        if row["state"] in ("completed", "aborted", "failed"):
            print(f"  {row['from']} -> {row['to']} {row['state']} {row['reason'] or ''}", file=sys.stderr)
            return row
        time.sleep(0.2)


def emergency(one: Estate, client: httpx2.Client, folder: Path) -> dict[str, Any]:
    """Stop the active cluster's broker, start an emergency switch, and resume the broker."""
    body = {**_from_to(client), "mode": "emergency"}
    plan = client.post("/switches/plan", json=body).json()
    broker = next(row for row in one.status()["processes"] if row["name"] == f"kafka:{body['from']}:1")
    os.kill(broker["pid"], signal.SIGSTOP)
    try:
        commanded = time.time()
        answer = client.post("/switches", json=body)
        assert answer.status_code == 202, answer.text
        row = followed(client, answer.json()["id"])
        (folder / "moved").touch()
        time.sleep(max(0.0, AWAY_SECONDS - (time.time() - commanded)))
    finally:
        os.kill(broker["pid"], signal.SIGCONT)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and row["stranded_arrived"] is None:
        time.sleep(1)
        row = client.get(f"/switches/{row['id']}").json()
    at = datetime.fromtimestamp(commanded).astimezone().isoformat()
    return {**row, "commanded": at, "plan": {"items": plan["items"]}}


if __name__ == "__main__":
    main()
