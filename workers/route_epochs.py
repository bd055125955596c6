"""Epochs of the zone router's channel: starts a new one every ten seconds, while nodes report.

Two processes that do so at the same time, because a lease moved, start only one: the second finds the event stream
at another version than it has read.
"""

from __future__ import annotations

import time

import structlog
from sqlalchemy import Connection, Engine

from backend.deciders import ROUTE_EPOCHS
from backend.domain.base.errors import StaleVersion
from backend.domain.zones.route_epochs import EVENT_STREAM, BeginEpoch
from backend.queries.zones.route_epochs import EpochsRow, find_epochs
from backend.queries.zones.zone_router import NodeRow, delete_expired_reports, list_nodes, now
from backend.settings import Settings
from workers import context

log = structlog.get_logger("route-epochs")

ACTOR = "worker:route-epochs"
_REPORTED_SECONDS = 60.0
"""If no node has reported for so long there is no router, or none that works: nothing is written."""
_FORGET_EVERY_SECONDS = 3600.0


class RouteEpochTicker:
    """Epochs started by one process; `tick` is called about once a second."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine, self._settings = engine, settings
        self._forget_due = self._not_before = float("-inf")

    def tick(self) -> None:
        """Start the next epoch if the last one is old enough. Raises DatabaseUnavailable."""
        if time.monotonic() < self._not_before:
            return
        with self._engine.begin() as connection:
            if time.monotonic() >= self._forget_due:
                delete_expired_reports(connection)
                self._forget_due = time.monotonic() + _FORGET_EVERY_SECONDS
            epochs, nodes = find_epochs(connection), list_nodes(connection)
            if not self._is_due(connection, epochs, nodes):
                return
        command = BeginEpoch(
            fence_lag=self._settings.route_fence_lag, nodes=tuple(each.liveness for each in nodes)
        )
        try:
            context.dispatch(
                ROUTE_EPOCHS,
                EVENT_STREAM,
                command,
                ACTOR,
                f"route-epoch-{epochs.current + 1}",
                expected_version=epochs.version,
            )
        except StaleVersion:
            log.info("another process has begun the epoch", epoch=epochs.current + 1)
        # Not by the event's time alone, which comes from a clock that may be wrong: epochs in quick succession
        # would fence records in flight.
        self._not_before = time.monotonic() + self._settings.route_epoch_seconds

    def _is_due(self, connection: Connection, epochs: EpochsRow, nodes: list[NodeRow]) -> bool:
        if not any(each.liveness.silent_seconds < _REPORTED_SECONDS for each in nodes):
            return False
        if epochs.begun_at is None:
            return True
        age = (now(connection) - epochs.begun_at).total_seconds()
        # An epoch in the future was started by a process whose clock is wrong: it is not waited for.
        return not 0 <= age < self._settings.route_epoch_seconds
