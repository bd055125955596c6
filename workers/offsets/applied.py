"""Results of one committer, in memory and in the table applied_offsets (`queries/offsets/offset_tables.py`)."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum

from sqlalchemy import Engine

from backend.domain.offsets.offset_map import GroupPartition, Progress
from workers.offsets import store


class State(StrEnum):
    """Result of the last attempt to set an offset."""

    APPLIED = "applied"
    HAS_MEMBERS = "has-members"
    """The group has active members there; it is left alone."""
    WAITING = "waiting"
    """A precondition is not met yet."""
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class Applied:
    """Last result for one group and partition; the fields from `offset` on are None if no offset was set."""

    technical_group: str
    state: str
    reason: str | None
    origin_cluster: str
    generation: int
    committed_at_ms: int
    progress_digest: str | None = None
    """Digest of what was known of the commit; when more becomes known, the progress counts as another one."""
    offset: int | None = None
    mode: str | None = None
    re_read_bound: int | None = None
    settled: bool | None = None
    applied_at_ms: int | None = None
    incarnation: int | None = None
    """Newest incarnation of the log at that time; an offset of a log that was truncated or re-created means
    nothing."""
    set_for_ms: int | None = None
    """Time of the progress for which the offset was set."""

    def is_of(self, cluster: str, progress: Progress) -> bool:
        """Tell whether the row was made for this progress, with all that is known of it now."""
        answered = (self.origin_cluster, self.generation, self.committed_at_ms, self.progress_digest)
        return answered == (cluster, *progress.order, progress.digest)


class LostOffsets:
    """Offsets that expired or were deleted on a cluster.

    The translator finds them and the cluster's committer takes them. Both run in one process, on threads of their
    own.
    """

    def __init__(self) -> None:
        self._adding = threading.Lock()
        self._found: dict[str, set[GroupPartition]] = {}

    def add(self, cluster: str, group_partitions: Collection[GroupPartition]) -> None:
        """Add group partitions that have no offset on the cluster any more."""
        with self._adding:
            self._found.setdefault(cluster, set()).update(group_partitions)

    def take(self, cluster: str) -> set[GroupPartition]:
        """Return the group partitions added since the last call, and remove them."""
        with self._adding:
            return self._found.pop(cluster, set())


class AppliedOffsets:
    """Results of one cluster's committer. `save` writes changes to the database."""

    def __init__(self, engine: Engine, cluster: str) -> None:
        self._engine, self._cluster = engine, cluster
        self._rows: dict[GroupPartition, Applied] = {}
        self._changed: set[GroupPartition] = set()
        with engine.connect() as connection:
            for row in store.read_applied(connection, cluster):
                del row["cluster"]
                whose = store.group_partition(row.pop("stream"), row.pop("partition"), row.pop("group"))
                self._rows[whose] = Applied(**row)

    def get(self, group_partition: GroupPartition) -> Applied | None:
        """Return the last result for a group partition."""
        return self._rows.get(group_partition)

    def items(self) -> Iterator[tuple[GroupPartition, Applied]]:
        """Iterate over all results."""
        return iter(list(self._rows.items()))

    def put(self, group_partition: GroupPartition, row: Applied) -> None:
        """Replace the result for a group partition."""
        if self._rows.get(group_partition) != row:
            self._rows[group_partition] = row
            self._changed.add(group_partition)

    def forget(self, group_partition: GroupPartition) -> None:
        """Drop the result for a group partition."""
        if self._rows.pop(group_partition, None) is not None:
            self._changed.add(group_partition)

    def save(self) -> None:
        """Write changes to the database. Raises DomainError if it is unavailable; changes then stay pending."""
        if not self._changed:
            return
        rows, gone = [], []
        for group_partition in self._changed:
            key = (self._cluster, group_partition.stream_name, group_partition.partition, group_partition.group)
            row = self._rows.get(group_partition)
            if row is None:
                gone.append(key)
            else:
                named = dict(zip(("cluster", "stream", "partition", "group"), key, strict=True))
                rows.append({**named, **asdict(row)})
        with self._engine.begin() as connection:
            store.write_applied(connection, rows)
            store.forget_applied(connection, gone)
        self._changed.clear()
