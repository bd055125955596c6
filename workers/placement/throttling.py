"""The throttle of one run: stored before it is set, and removed when it is no longer wanted."""

from __future__ import annotations

from sqlalchemy import Engine

from backend.kafka.admin.replica_admin import ReplicaAdmin
from backend.kafka.admin.replication_throttle import Throttle
from backend.placement.execution.steps import Course, throttled
from backend.queries.placement import placement_runs


class Throttling:
    """The throttle of one placement; used by one thread."""

    def __init__(self, engine: Engine, placement: str) -> None:
        self._engine, self._placement = engine, placement
        self._set: tuple[int, Course] | None = None  # as last set by this process
        self._is_known = False
        self._kept: Throttle | None = None  # as stored, once that was read
        self.refused: dict[str, str] = {}
        """Throttles that could not be set or removed, with the reasons."""

    def keep(self, admin: ReplicaAdmin, bytes_per_second: int, course: Course) -> None:
        """Throttle the moves of a course. Raises KafkaCallFailed."""
        if self._set == (bytes_per_second, course) and not self.refused:
            return
        earlier = self._earlier()
        throttle = admin.intended_throttle(bytes_per_second, throttled(course), earlier)
        self._keep(throttle)
        self.refused = admin.throttle(throttle)
        self._set = (bytes_per_second, course)

    def remove(self, admin: ReplicaAdmin) -> bool:
        """Remove the throttle; return True once nothing of it is left. Raises KafkaCallFailed."""
        self._set = None
        earlier = self._earlier()
        if earlier is None:
            self.refused = {}
            return True
        self.refused = admin.unthrottle(earlier)
        if self.refused:
            return False
        self._keep(None)
        return True

    def _earlier(self) -> Throttle | None:
        if not self._is_known:
            with self._engine.connect() as connection:
                kept = placement_runs.find_run_state(connection, self._placement).throttle
            self._kept, self._is_known = None if kept is None else Throttle.read(kept), True
        return self._kept

    def _keep(self, throttle: Throttle | None) -> None:
        with self._engine.begin() as connection:
            document = None if throttle is None else throttle.document()
            placement_runs.store_throttle(connection, self._placement, document)
        self._kept, self._is_known = throttle, True
