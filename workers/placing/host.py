"""Keeps a thread at work on every placement whose replicas are moved, in the process that has its lease."""

from __future__ import annotations

import threading

import structlog
from sqlalchemy import Engine

from backend.queries.placements import running_placements
from backend.settings import Settings
from workers import leases
from workers.placing.runner import PlacementRunner

log = structlog.get_logger("placements")


class PlacementRunHost:
    """One process's; `tick` is called about once a second and waits for nobody."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine, self._settings = engine, settings
        self._threads: dict[str, threading.Thread] = {}

    def tick(self) -> None:
        """Begin, or go on with, what nobody carries out. Raises DomainError."""
        with self._engine.connect() as connection:
            wanted = [row.id for row in running_placements(connection)]
        self._threads = {each: thread for each, thread in self._threads.items() if thread.is_alive()}
        for placement in wanted:
            if placement not in self._threads and self._is_mine(placement):
                log.info("moving replicas", placement=placement)
                # A daemon: a process that ends shall not wait; whoever comes next asks the cluster how far it is.
                thread = threading.Thread(
                    target=self._run, args=(placement,), name=f"placement-run-{placement}", daemon=True
                )
                self._threads[placement] = thread
                thread.start()

    def _run(self, placement: str) -> None:
        PlacementRunner(self._engine, self._settings, placement, self._is_mine).run()

    def _is_mine(self, placement: str) -> bool:
        lease = f"placement-run:{placement}"
        return leases.keep_for_process(self._engine, lease, self._settings.lease_ttl_seconds)
