"""State of the estate in a home, read from its lock, its state file and the kernel.

The lock is the only truth about "does it run?": the supervisor and its guardian hold it until none of their
processes is left, and the kernel frees it however they end. Pid files can lie; locks cannot.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from backend.estate.control_plane import ControlPlane, Refused
from backend.estate.home import Home, try_lock


def is_running(home: Home) -> bool:
    if not home.supervisor_lock.exists():
        return False
    lock = try_lock(home.supervisor_lock)
    if lock is None:
        return True
    os.close(lock)
    return False


def read_state(home: Home) -> dict[str, Any] | None:
    """Return the supervisor's last report, or None if there is none (yet)."""
    try:
        state: dict[str, Any] = json.loads(home.state.read_text())
    except FileNotFoundError:
        return None
    return state


def read_layout(home: Home) -> dict[str, Any]:
    layout: dict[str, Any] = json.loads((home.run / "layout.json").read_text())
    return layout


def not_ready(state: dict[str, Any]) -> list[dict[str, Any]]:
    return [process for process in state["processes"] if process["state"] not in ("running", "done")]


def status(home: Home) -> dict[str, Any]:
    """Return `treeline status --json`, with processes' memory (PSS, bytes) and last ends."""
    state = read_state(home) if is_running(home) else None
    if state is None:
        return {
            "control_plane": None,
            "admin_token": None,
            "ready": False,
            "estate": None,
            "clusters": {},
            "zones": {},
            "processes": [],
        }
    layout = read_layout(home)
    url, token = layout["url"], home.secret("admin-token")
    known = _known_clusters(url, token)
    memory = memory_bytes(state["supervisor"])
    supervisor = memory[state["supervisor"]] + _pss_bytes(_parent(state["supervisor"]))
    memory[state["supervisor"]] = supervisor
    clusters = {
        name: {
            "bootstrap_servers": servers,
            "registry": f"{url}/registries/{name}",
            "state": (known or {}).get(name, {}).get("state", "offline"),
            "reason": _why_not_online(name, (known or {}).get(name, {}), state["processes"]),
        }
        for name, servers in layout["clusters"].items()
    }
    return {
        "control_plane": url,
        "admin_token": token,
        "ready": not not_ready(state) and known is not None and set(layout["clusters"]) <= set(known),
        "estate": state["estate"],
        "clusters": clusters,
        "zones": layout.get("zones", {}),
        "processes": [
            {**process, "memory_bytes": memory.get(process["pid"], 0)} for process in state["processes"]
        ],
        "memory_bytes": sum(memory.values()),
        "supervisor": {"pid": state["supervisor"], "memory_bytes": supervisor},
    }


def _known_clusters(url: str, token: str) -> dict[str, dict[str, Any]] | None:
    """Return the API's clusters by name; None if it does not respond."""
    import httpx2  # imported here: `treeline logs` and `down` start faster without it

    try:
        with ControlPlane(url, token) as api:
            return api.cluster_states()
    except (httpx2.TransportError, Refused):
        return None


def _why_not_online(name: str, cluster: dict[str, Any], processes: list[dict[str, Any]]) -> str | None:
    """Return why a cluster is not online: first brokers that do not run, then what its clients report."""
    ended = [
        f"{row['name']} {row['state']}" + (f": {row['last_end']['reason']}" if row["last_end"] else "")
        for row in processes
        if row["name"].startswith(f"kafka:{name}:") and row["state"] != "running"
    ]
    if ended:
        return "; ".join(ended)
    reason: str | None = cluster.get("reason") if cluster.get("state") == "offline" else None
    return reason


def memory_bytes(pid: int) -> dict[int, int]:
    """Return PSS in bytes of this process, and of each of its children with their descendants.

    PSS counts a page that n processes share as 1/n of a page in each, so that sums are true.
    """
    below: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            below.setdefault(_parent(int(entry.name)), []).append(int(entry.name))

    def together(root: int) -> int:
        return _pss_bytes(root) + sum(together(child) for child in below.get(root, []))

    return {pid: _pss_bytes(pid), **{child: together(child) for child in below.get(pid, [])}}


def _pss_bytes(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("PPid:"):
                return int(line.split()[1])
    return 0
