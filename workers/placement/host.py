"""The host of placement runs: it executes every placement that is being applied or rolled back."""

from __future__ import annotations

from sqlalchemy import Engine

from backend.queries.placement.placements import running_placements
from backend.settings import Settings
from workers.placement.runner import PlacementRunner
from workers.run_host import RunHost


def placement_run_host(engine: Engine, settings: Settings) -> RunHost:
    """Return this process's host of placement runs."""
    return RunHost(
        engine,
        settings,
        "placement-run",
        lambda connection: [row.id for row in running_placements(connection)],
        lambda placement, is_mine: PlacementRunner(engine, placement, is_mine).run(),
    )
