"""Keeps a thread at work on every switch that is not over, in the process that has the switch's lease."""

from __future__ import annotations

import threading

import structlog
from sqlalchemy import Engine

from backend.queries.switches import running_switches
from backend.settings import Settings
from workers import leases
from workers.switches.runner import SwitchRunner

log = structlog.get_logger("switches")


class SwitchHost:
    """One process's; `tick` is called about once a second and waits for nobody."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine, self._settings = engine, settings
        self._threads: dict[str, threading.Thread] = {}

    def tick(self) -> None:
        """Begin, or go on with, what nobody carries out. Raises DomainError."""
        with self._engine.connect() as connection:
            wanted = [row.id for row in running_switches(connection)]
        self._threads = {switch: thread for switch, thread in self._threads.items() if thread.is_alive()}
        for switch in wanted:
            if switch not in self._threads and self._is_mine(switch):
                log.info("switch taken up", switch=switch)
                runner = SwitchRunner(self._engine, self._settings, switch, self._is_mine)
                # A daemon: a process that ends shall not wait, whoever comes next goes on from the events.
                thread = threading.Thread(target=runner.run, name=f"switch-{switch}", daemon=True)
                self._threads[switch] = thread
                thread.start()

    def _is_mine(self, switch: str) -> bool:
        return leases.keep_for_process(self._engine, f"switch:{switch}", self._settings.lease_ttl_seconds)
