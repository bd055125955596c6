"""The throttle of one run: kept before it is set, and taken away when it is not wanted any more."""

from __future__ import annotations

from sqlalchemy import Engine

from backend.kafka.admin.replica_admin import ReplicaAdmin
from backend.kafka.admin.replication_throttle import Throttle
from backend.placement.carrying_out.applying import Course, throttled
from backend.queries.placement import placement_runs


class Throttling:
    """Of one placement; for one thread."""

    def __init__(self, engine: Engine, placement: str) -> None:
        self._engine, self._placement = engine, placement
        self._set: tuple[int, Course] | None = None  # as asked for last by this process
        self._is_known = False
        self._kept: Throttle | None = None  # as it is written down, once that is known
        self.refused: dict[str, str] = {}
        """What could not be set, or taken away, and why."""

    def keep(self, admin: ReplicaAdmin, bytes_per_second: int, course: Course) -> None:
        """Have moves of this course go no faster. Raises KafkaCallFailed."""
        if self._set == (bytes_per_second, course) and not self.refused:
            return
        earlier = self._earlier()
        throttle = admin.intended_throttle(bytes_per_second, throttled(course), earlier)
        self._keep(throttle)
        self.refused = admin.throttle(throttle)
        self._set = (bytes_per_second, course)

    def remove(self, admin: ReplicaAdmin) -> bool:
        """Whether nothing of it is left. Raises KafkaCallFailed."""
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
                kept = placement_runs.recall(connection, self._placement).throttle
            self._kept, self._is_known = None if kept is None else Throttle.read(kept), True
        return self._kept

    def _keep(self, throttle: Throttle | None) -> None:
        with self._engine.begin() as connection:
            document = None if throttle is None else throttle.document()
            placement_runs.keep_throttle(connection, self._placement, document)
        self._kept, self._is_known = throttle, True
