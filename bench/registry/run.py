"""Schemas by id, as serializers ask for them, and writes: one API process of a running estate.

The peer is the ceiling, measured in the same run: the same server (uvicorn) with an application that answers a
constant of the same size. The load is a process of its own on the same machine; the estate's other processes run.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent))

import httpx2
import psutil
from local_estates import ESTATES, Estate, estate

from backend.settings import PROJECT_ROOT

HERE = Path(__file__).resolve().parent
SCHEMAS = 100
FIELDS = 12
WRITES = 100


def schema(number: int) -> str:
    """Some 800 bytes of Avro, as they usually are."""
    fields = [{"name": f"field_{n}", "type": ["null", "string"], "default": None} for n in range(FIELDS)]
    return json.dumps({"type": "record", "name": f"Order{number}", "namespace": "bench", "fields": fields})


def load(
    url: str, server: int, paths: list[str], connections: int, seconds: float, token: str = ""
) -> dict[str, float]:
    """Return the measurements of a load of GETs, with the CPU time that the server's process took for it."""
    process = psutil.Process(server)
    before = process.cpu_times()
    words = [sys.executable, str(HERE / "load.py"), url, *paths]
    options = ["--connections", str(connections), "--seconds", str(seconds), "--token", token]
    run = subprocess.run([*words, *options], capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(f"the load failed: {run.stdout}{run.stderr}")
    answer: dict[str, float] = json.loads(run.stdout)
    after = process.cpu_times()
    answer["cpu_seconds"] = after.user + after.system - before.user - before.system
    return answer


@contextmanager
def served(words: list[str], environment: dict[str, str]) -> Iterator[tuple[str, int]]:
    """An application by uvicorn, until it listens; its address and process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    command = [sys.executable, "-m", "uvicorn", *words, "--port", port, "--log-level", "warning"]
    process = subprocess.Popen(command, env=environment, cwd=PROJECT_ROOT)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", int(port))) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        process.terminate()
        process.wait()


@contextmanager
def ceiling(body_bytes: int) -> Iterator[tuple[str, int]]:
    """The peer, served as the API is; its address and process."""
    environment = {**os.environ, "BODY_BYTES": str(body_bytes)}
    with served(["ceiling:app", "--app-dir", str(HERE)], environment) as peer:
        yield peer


@contextmanager
def asking_for_tokens(server: int, cluster: str, token: str) -> Iterator[tuple[str, int]]:
    """A second API of the estate, whose registries are not open; a cluster's registry there, and its process."""
    environment = {**psutil.Process(server).environ(), "TREELINE_REGISTRY_OPEN": "false"}
    with served(["backend.asgi:app"], environment) as (url, process):
        address = f"{url}/registries/{cluster}"
        head = {"Authorization": f"Bearer {token}"}
        for _ in range(10):
            # The first ones may come before the schemas were read.
            if httpx2.get(f"{address}/subjects", headers=head, timeout=30, trust_env=False).is_success:
                break
            time.sleep(1)
        yield address, process


def tenants_token(running: Estate) -> str:
    """Return the token of a member of a new tenant that may use subjects by record name, as needed here."""
    with running.client() as client:
        for path, body in (
            ("tenants", {"name": "bench"}),
            ("tenants/bench/instances", {"name": "i", "tree": "main"}),
            ("tenants/bench/instances/i/environments", {"name": "e"}),
            ("users", {"name": "bench", "tenants": {"bench": "member"}}),
            ("users/bench/tokens", {"name": "bench"}),
        ):
            answer = client.post(path, json=body)
            if not answer.is_success:
                sys.exit(f"{path}: {answer.status_code} {answer.text}")
    token: str = answer.json()["secret"]
    return token


def figures(name: str, found: list[dict[str, float]]) -> list[tuple[str, str]]:
    """Rows of one contender, medians of its rounds."""

    def median(over: str, under: str | None = None) -> float:
        return statistics.median(each[over] / (each[under] if under else 1) for each in found)

    return [
        (name, f"{median('requests', 'seconds'):,.0f} /s"),
        ("for a second of the server's CPU time", f"{median('requests', 'cpu_seconds'):,.0f}"),
        ("p50, p99", f"{median('p50_ms'):.1f} ms, {median('p99_ms'):.1f} ms"),
    ]


def measure(running: Estate, connections: int, seconds: float, rounds: int) -> list[tuple[str, str]]:
    """The table's rows; reads and ceiling take turns, so that both have the same machine."""
    status = running.status()
    address = status["clusters"]["cluster-1"]["registry"]
    server = next(row["pid"] for row in status["processes"] if row["name"] == "api")
    rows: list[tuple[str, str]] = []
    with httpx2.Client(base_url=address, timeout=30, trust_env=False) as client:

        def ok(method: str, path: str, body: Any = None) -> Any:
            answer = client.request(method, path, json=body)
            if not answer.is_success:
                sys.exit(f"{method} {path}: {answer.status_code} {answer.text}")
            return answer.json()

        ids, took = [], []
        for number in range(SCHEMAS + WRITES):
            began = time.perf_counter()
            ids.append(ok("POST", f"/subjects/bench-{number}/versions", {"schema": schema(number)})["id"])
            took.append((time.perf_counter() - began) * 1000)
        size = len(client.get(f"/schemas/ids/{ids[0]}").content)
        began = time.perf_counter()
        for number in range(SCHEMAS):
            ok("POST", f"/subjects/bench-{number}/versions", {"schema": schema(number)})
        again = (time.perf_counter() - began) / SCHEMAS * 1000
    paths = [f"/schemas/ids/{schema_id}" for schema_id in ids[:SCHEMAS]]
    reads, most, by_tenant = [], [], []
    token = tenants_token(running)
    with (
        ceiling(size) as (peer, peer_server),
        asking_for_tokens(server, "cluster-1", token) as (closed, closed_server),
    ):
        for _ in range(rounds):
            most.append(load(peer, peer_server, paths, connections, seconds))
            reads.append(load(address, server, paths, connections, seconds))
            by_tenant.append(load(closed, closed_server, paths, connections, seconds, token))
    rows += figures(f"peer: the same server, a constant of {size} bytes", most)
    rows += figures("GET /schemas/ids/{id}", reads)
    rows += figures("the same with a tenant's token", by_tenant)
    rows.append(("POST of a new schema, one after the other, p50", f"{statistics.median(took[SCHEMAS:]):.0f} ms"))
    rows.append(("POST of a schema that is there", f"{again:.1f} ms"))
    return rows


def main() -> None:
    """Run it and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="of each; the median counts")
    given = parser.parse_args()
    with estate(ESTATES / "unbalanced.yaml") as running:
        running.up("--no-verify")
        rows = measure(running, given.connections, given.seconds, given.rounds)
    load_average = os.getloadavg()[0]
    print(f"| schema registry, load average {load_average:.0f} | figure |\n|---|---:|")
    for what, figure in rows:
        print(f"| {what} | {figure} |")


if __name__ == "__main__":
    main()
