"""What the supervisor of a local estate says of its processes, for the programs that it has started.

They find its state file by the variable that each of them carries. A control plane that was started otherwise has
no such variable, and nothing is said.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

MARKER = "TREELINE_ESTATE_HOME"
"""In the environment of every process of an estate: its home. It is how `up` and `down` find what a killed
supervisor left behind, and how they tell our processes from a stranger's, without trusting pid files."""


@dataclass(frozen=True, kw_only=True)
class BrokerEnd:
    """One broker of a local cluster, as its supervisor saw it end last."""

    process: str
    at: datetime
    reason: str
    restarts: int
    is_running: bool


def broker_ends(cluster: str) -> list[BrokerEnd]:
    """Every broker of the cluster that has ended since the estate was started, by name."""
    home = os.environ.get(MARKER)
    if home is None:
        return []
    try:
        rows = json.loads((Path(home) / "run" / "state.json").read_text())["processes"]
    except (OSError, ValueError, KeyError):
        return []
    return [
        BrokerEnd(
            process=row["name"],
            at=datetime.fromisoformat(row["last_end"]["at"]),
            reason=row["last_end"]["reason"],
            restarts=row["restarts"],
            is_running=row["state"] == "running",
        )
        for row in rows
        if row["name"].startswith(f"kafka:{cluster}:") and row.get("last_end")
    ]
