"""Memory of the API while people follow a busy stream: resident bytes before, during and after.

Each tail is a browser's request for new messages, of a user of its own for every three. A process has twelve tails
at once; further ones are refused, and counted. Fails unless all follow, and if a tail takes more than 48 MiB.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from pathlib import Path

import httpx2
import messages_estate
from messages_estate import STREAM, TOPIC, Estate, api_processes, fill

PAGE = f"/tenants/{STREAM}/-messages/-live?cluster=cluster-1"
OF_A_USER = 3
SECONDS, RECORDS = 30.0, 200_000
MOST_BYTES = 48 * 1024 * 1024


def resident(running: Estate) -> int:
    """Return the resident bytes of the control plane's processes."""
    found = 0
    for process in api_processes(running):
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        found += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))
    return found


def tokens(client: httpx2.Client, count: int) -> list[str]:
    """Return the tokens of new operators, enough for so many tails."""
    found = []
    for number in range(-(-count // OF_A_USER)):
        user = {"name": f"reader-{number}", "role": "operator", "tenants": {}}
        client.post("/users", json=user).raise_for_status()
        token = client.post(f"/users/reader-{number}/tokens", json={"name": "bench"})
        found.append(token.raise_for_status().json()["secret"])
    return found


def follow(url: str, token: str, ended: threading.Event, told: list[str]) -> None:
    """Read a tail until the end of the measurement; tell how it went."""
    headers = {"Authorization": f"Bearer {token}"}
    messages = 0
    with httpx2.stream("GET", url, headers=headers, timeout=60) as answer:
        for line in answer.iter_lines():
            messages += line.startswith("event: messages")
            if line.startswith("event: ended"):
                told.append("refused")
                return
            if ended.is_set():
                break
    told.append("followed" if messages else "saw nothing")


def measure(running: Estate, count: int) -> bool:
    """Print the table; return whether all followed, and memory stayed within its bound."""
    status = running.status()
    servers, address = status["clusters"]["cluster-1"]["bootstrap_servers"], status["control_plane"] + PAGE
    with running.client() as client:
        readers = tokens(client, count)
    ended, told, before = threading.Event(), list[str](), resident(running)
    with ExitStack() as stack:
        stack.callback(ended.set)
        threads = [
            threading.Thread(target=follow, args=(address, readers[each // OF_A_USER], ended, told))
            for each in range(count)
        ]
        for thread in threads:
            thread.start()
        during, until = before, time.monotonic() + SECONDS
        while time.monotonic() < until:
            fill(servers, RECORDS, int(time.time() * 1000))
            during = max(during, resident(running))
    for thread in threads:
        thread.join()
    after = resident(running)
    followed = told.count("followed")
    print(f"| {count} tails of {TOPIC}, {followed} at once, {told.count('refused')} refused | MiB |\n|---|---|")
    for name, found in (("before", before), ("most during", during), ("after", after)):
        print(f"| {name} | {found / 1024**2:.0f} |")
    return followed == count and during - before <= MOST_BYTES * followed


if __name__ == "__main__":
    messages_estate.run(__doc__, "--tails", 10, measure, "not all could follow, or memory is beyond the bound")
