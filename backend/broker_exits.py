"""Broker exits that the supervisor of a local estate has recorded, for the programs that it started.

Programs find the supervisor's state file by an environment variable that each of them carries. A control plane
that was started in another way has no such variable, and gets an empty list.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

MARKER = "TREELINE_ESTATE_HOME"
"""Environment variable of every process of an estate, which holds the estate's home. `up` and `down` use it to
find processes that a killed supervisor left behind, and to tell ours from others, without trusting pid files."""


@dataclass(frozen=True, kw_only=True)
class BrokerExit:
    """Last exit of one broker of a local cluster, as its supervisor saw it."""

    process: str
    at: datetime
    reason: str
    restarts: int
    is_running: bool


def broker_exits(cluster: str) -> list[BrokerExit]:
    """Return the last exit of each broker of the cluster since the estate was started, by name."""
    home = os.environ.get(MARKER)
    if home is None:
        return []
    try:
        rows = json.loads((Path(home) / "run" / "state.json").read_text())["processes"]
    except (OSError, ValueError, KeyError):
        return []
    return [
        BrokerExit(
            process=row["name"],
            at=datetime.fromisoformat(row["last_end"]["at"]),
            reason=row["last_end"]["reason"],
            restarts=row["restarts"],
            is_running=row["state"] == "running",
        )
        for row in rows
        if row["name"].startswith(f"kafka:{cluster}:") and row.get("last_end")
    ]
