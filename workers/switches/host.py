"""Host of switch runners: runs every switch that has not ended."""

from __future__ import annotations

from sqlalchemy import Engine

from backend.queries.switch.switches import running_switches
from backend.settings import Settings
from workers.run_host import RunHost
from workers.switches.runner import SwitchRunner


def switch_host(engine: Engine, settings: Settings) -> RunHost:
    """Return the host for this process."""
    return RunHost(
        engine,
        settings,
        "switch",
        lambda connection: [row.id for row in running_switches(connection)],
        lambda switch, is_mine: SwitchRunner(engine, settings, switch, is_mine).run(),
    )
