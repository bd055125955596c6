"""Schema gates: knowledge of the targets' schemas for the tasks that copy to them (schema before data).

The schemas topics of a target and of the primary are followed, ids only, from the first record on that may have a
schema that the target lacks, and as long as tasks copy there: streams without schemas cost nothing. All of it is
thread-safe.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection

import structlog

from backend.domain.distribution.edges import Endpoint
from backend.kafka.copy.schema_wait import SchemaGate, Verdict
from backend.registry.mirror import Mirror

_AHEAD_IDS = 1000
"""Ids above the highest known one that may be assigned before they are seen; as many as a take-over skips."""
_ANY_ID = 2**32 - 1
_DUMMY_HASH_SECONDS = 1.0
"""An id that the primary, while it answers, has not known for this long belongs to no schema."""

log = structlog.get_logger("schema-gates")


class SchemaGates:
    """The schema gates of one process."""

    def __init__(self, topic: str, wait_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.wait_seconds, self.clock = wait_seconds, clock
        self.changes: Counter[str] = Counter()
        """Count of changes by cluster."""
        self.primary: Endpoint | None = None
        self._topic = topic
        self._lock = threading.Lock()
        self._gates: dict[str, TargetGate] = {}
        self._followed: dict[str, Followed] = {}
        self._ending: list[Mirror] = []

    def assign(self, primary: Endpoint | None) -> None:
        """Set the cluster that writes schemas from now on."""
        self.primary = primary

    def of(self, target: Endpoint) -> SchemaGate | None:
        """Return the gate of all tasks that copy to a target; None if none has to wait."""
        if self.wait_seconds <= 0:
            return None
        with self._lock:
            gate = self._gates.get(target.name)
            if gate is None or gate.target != target:
                gate = self._gates[target.name] = TargetGate(self, target)
            return gate

    def followed(self, endpoint: Endpoint) -> Followed | None:
        """Return the reader of a cluster's schemas topic, if it is being read."""
        found = self._followed.get(endpoint.name)
        return found if found is not None and found.mirror.endpoint == endpoint else None

    def follow(self, endpoint: Endpoint) -> Followed:
        """Return the reader of a cluster's schemas topic, and start it if necessary."""
        with self._lock:
            found = self.followed(endpoint)
            if found is None:
                self._end(endpoint.name)
                found = Followed(endpoint, self._topic, self.clock())
                found.mirror.on_news = lambda: self._changed(endpoint.name)
                self._followed[endpoint.name] = found
                found.mirror.start()
            return found

    def _changed(self, cluster: str) -> None:
        self.changes[cluster] += 1

    def tidy(self, targets: Collection[str]) -> None:
        """Stop readers that no task needs; call this now and then with the targets of all tasks."""
        with self._lock:
            used = self._followed.keys() & set(targets)
            if used and self.primary is not None:
                used.add(self.primary.name)
            for name in self._followed.keys() - used:
                self._end(name)
            for mirror in [each for each in self._ending if each.ended]:
                mirror.join()
                self._ending.remove(mirror)

    def _end(self, cluster: str) -> None:
        followed = self._followed.pop(cluster, None)
        if followed is not None:
            followed.mirror.stop()
            self._ending.append(followed.mirror)
            self._changed(cluster)


class Followed:
    """Reader of one cluster's schemas topic, and the time of its start."""

    def __init__(self, endpoint: Endpoint, topic: str, since: float) -> None:
        self.mirror = Mirror(endpoint, topic, ids_only=True)
        self.since = since

    def has(self, schema_id: int) -> bool:
        """Return whether a version has this id, softly deleted or not."""
        return self.mirror.ready and schema_id in self.mirror.catalog.contents


class TargetGate:
    """Gate of one target; see `SchemaGate`."""

    def __init__(self, gates: SchemaGates, target: Endpoint) -> None:
        self.target = target
        self._gates = gates
        self._lock = threading.Lock()
        self._waited_since: dict[int, float] = {}
        self._strange_since: dict[int, float] = {}

    @property
    def _primary(self) -> Endpoint | None:
        """Return the cluster that has the schemas first; None if that is the target itself."""
        primary = self._gates.primary
        return None if primary is None or primary.name == self.target.name else primary

    @property
    def highest(self) -> int:
        """Return the highest id, as `SchemaGate`: while the primary's topic is not read, every id is checked."""
        primary = self._primary
        if primary is None:
            return 0
        writer = self._gates.followed(primary)
        return writer.mirror.catalog.highest_id + _AHEAD_IDS if writer and writer.mirror.ready else _ANY_ID

    @property
    def news(self) -> object:
        """Return the state of knowledge, as `SchemaGate`."""
        primary, changes = self._primary, self._gates.changes
        if primary is None:
            return 0
        reader = self._gates.followed(self.target)
        ready = reader is not None and reader.mirror.ready
        return primary.name, changes[primary.name], changes[self.target.name], ready, self.highest

    def knows(self, schema_id: int) -> bool:
        """Return whether the target has a schema, as `SchemaGate`."""
        found = self._gates.follow(self.target).has(schema_id)
        if found:
            with self._lock:
                # If the target loses it, it is waited for again.
                self._waited_since.pop(schema_id, None)
        return found

    def verdict(self, schema_id: int) -> Verdict:
        """Return the decision about an unknown id, as `SchemaGate`."""
        primary = self._primary
        if primary is None:
            return Verdict.NOBODYS
        writer, reader = self._gates.follow(primary), self._gates.follow(self.target)
        unread = [each.since for each in (writer, reader) if not each.mirror.ready]
        now = self._gates.clock()
        if unread:
            # One wait for all ids: with an unreadable topic none would ever be known.
            return self._until(max(unread), now)
        with self._lock:
            if not writer.has(schema_id) and writer.mirror.reason is None:
                since = self._strange_since.setdefault(schema_id, now)
                waits = now - since < min(_DUMMY_HASH_SECONDS, self._gates.wait_seconds)
                return Verdict.WAIT if waits else Verdict.NOBODYS
            if schema_id not in self._waited_since:
                log.info("records wait for a schema", cluster=self.target.name, schema_id=schema_id)
            return self._until(self._waited_since.setdefault(schema_id, now), now)

    def _until(self, since: float, now: float) -> Verdict:
        return Verdict.WAIT if now - since < self._gates.wait_seconds else Verdict.RAN_OUT
