"""What one committer has done, in memory and written down (`queries/offset_tables.py`, applied_offsets)."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum

from sqlalchemy import Engine

from backend.domain.offsets.offset_map import Follower, Progress
from workers.offsets import store


class State(StrEnum):
    """What came of it last."""

    APPLIED = "applied"
    HAS_MEMBERS = "has-members"
    """The group is at work there and is left alone."""
    WAITING = "waiting"
    """Something has to come first."""
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class Applied:
    """About one group and partition; from `offset` on of the offset that was set last, None if none was."""

    technical_group: str
    state: str
    reason: str | None
    origin_cluster: str
    generation: int
    committed_at_ms: int
    progress_digest: str | None = None
    """More may become known of a commit: then it is another one."""
    offset: int | None = None
    mode: str | None = None
    re_read_bound: int | None = None
    settled: bool | None = None
    applied_at_ms: int | None = None
    incarnation: int | None = None
    """Of the log's newest records then: an offset of a log that was cut off or made anew since says nothing."""
    set_for_ms: int | None = None
    """Time of the progress for which it was set."""

    def is_of(self, cluster: str, progress: Progress) -> bool:
        """Whether it was done for this progress, by all that is known of it."""
        told = (self.origin_cluster, self.generation, self.committed_at_ms, self.progress_digest)
        return told == (cluster, *progress.order, progress.digest)


class LostOffsets:
    """Offsets that are no more on a cluster, expired or deleted: the translator sees it, the cluster's committer
    has to know. Both run in one process, on threads of their own."""

    def __init__(self) -> None:
        self._adding = threading.Lock()
        self._found: dict[str, set[Follower]] = {}

    def add(self, cluster: str, followers: Collection[Follower]) -> None:
        """They have none there any more."""
        with self._adding:
            self._found.setdefault(cluster, set()).update(followers)

    def take(self, cluster: str) -> set[Follower]:
        """Those that nobody has taken yet."""
        with self._adding:
            return self._found.pop(cluster, set())


class AppliedOffsets:
    """One cluster's. Changes are written down by `save`."""

    def __init__(self, engine: Engine, cluster: str) -> None:
        self._engine, self._cluster = engine, cluster
        self._rows: dict[Follower, Applied] = {}
        self._changed: set[Follower] = set()
        with engine.connect() as connection:
            for row in store.read_applied(connection, cluster):
                del row["cluster"]
                whose = store.follower(row.pop("stream"), row.pop("partition"), row.pop("group"))
                self._rows[whose] = Applied(**row)

    def get(self, follower: Follower) -> Applied | None:
        """What was done about it."""
        return self._rows.get(follower)

    def items(self) -> Iterator[tuple[Follower, Applied]]:
        """All."""
        return iter(list(self._rows.items()))

    def put(self, follower: Follower, row: Applied) -> None:
        """Replace what was done about it."""
        if self._rows.get(follower) != row:
            self._rows[follower] = row
            self._changed.add(follower)

    def forget(self, follower: Follower) -> None:
        """Nothing is to be done about it any more."""
        if self._rows.pop(follower, None) is not None:
            self._changed.add(follower)

    def save(self) -> None:
        """Write down what has changed. Raises DomainError if the database is away; then it stays to be written."""
        if not self._changed:
            return
        rows, gone = [], []
        for follower in self._changed:
            key = (self._cluster, follower.stream_name, follower.partition, follower.group)
            row = self._rows.get(follower)
            if row is None:
                gone.append(key)
            else:
                named = dict(zip(("cluster", "stream", "partition", "group"), key, strict=True))
                rows.append({**named, **asdict(row)})
        with self._engine.begin() as connection:
            store.write_applied(connection, rows)
            store.forget_applied(connection, gone)
        self._changed.clear()
