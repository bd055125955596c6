"""Rules of a cluster's offset committer for one group's offset of one partition.

Inputs are the group's progress on all clusters (the map) and the offset that is committed on this cluster.
Progress is ordered by (generation, time of the commit); a committed offset never goes back in that order, in
whatever order map records arrive. Source: decision 21.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from backend.domain.offsets.commit_metadata import CommitMark, decode, is_ours
from backend.domain.offsets.offset_map import LATEST_MS, Progress


@dataclass(frozen=True, kw_only=True)
class CommittedOffset:
    """The committed offset of a group on a cluster, for one partition."""

    offset: int | None
    """None: no offset is committed."""
    metadata: str | None = None

    @property
    def mark(self) -> CommitMark | None:
        """Return the mark of an offset that a committer set; None for any other offset."""
        return decode(self.metadata)

    @property
    def is_fresh(self) -> bool:
        """Tell whether an application or an operator committed the offset here."""
        return self.offset is not None and not is_ours(self.metadata)


class Action(StrEnum):
    """Action of the committer."""

    NOTHING = "nothing"
    """Keep the committed offset: it is later progress, or the group's own commit."""
    APPLY = "apply"
    """Set the offset from which the group continues here after its progress elsewhere."""
    PUT_BACK = "put-back"
    """Restore the offset that the group itself committed here: older progress had replaced it."""
    WAIT = "wait"
    """Wait until the map has the offset that is committed here; only then is known which of the two is newer."""


@dataclass(frozen=True)
class OwnCommit:
    """A group's last own commit on a cluster, as read from `__consumer_offsets`."""

    offset: int
    ordered_ms: int
    """Time, in milliseconds, by which the commit is ordered."""
    broker_ms: int | None
    """Broker's timestamp of the commit; None: not known any more."""
    read_at: int | None = None
    """Offset of the commit's record in its partition of `__consumer_offsets`; None: not known any more."""

    def is_behind(self, read_at: int, broker_ms: int | None) -> bool:
        """Tell whether this commit came after the one read at `read_at` (`broker_ms` None: a tombstone).

        Records may be processed late and out of order. Both values count: a log that was truncated assigns the
        same offsets a second time.
        """
        if self.read_at is None or read_at >= self.read_at:
            return False
        return broker_ms is None or self.broker_ms is None or broker_ms <= self.broker_ms

    def is_same(self, offset: int, broker_ms: int) -> bool:
        """Tell whether this is the same commit, read again."""
        if self.broker_ms is None:
            return self.offset == offset and broker_ms <= self.ordered_ms
        return (self.offset, self.broker_ms) == (offset, broker_ms)


def commit_time(at_ms: int, offset: int, own: OwnCommit | None, applied_ms: int | None) -> int:
    """Return the time that orders a commit: the broker's timestamp, raised above earlier progress there.

    Brokers' clocks differ, so a later commit may carry an earlier timestamp. `own` is the group's previous commit
    on that cluster, `applied_ms` the time of the progress that was applied there; both precede this commit
    whatever the clocks say.
    """
    if own is not None and own.is_same(offset, at_ms):
        return own.ordered_ms
    before = [each for each in (own.ordered_ms if own else None, applied_ms) if each is not None]
    return min(max([at_ms, *(each + 1 for each in before)]), LATEST_MS)


def decide(
    here: str,
    newest: tuple[str, Progress],
    own: Progress | None,
    committed: CommittedOffset,
    *,
    in_other_topic: bool = False,
) -> Action:
    """Decide what to do about a committed offset.

    `newest` is the group's latest progress with the cluster where it was made, `own` the progress made on this
    cluster; `in_other_topic` says that it was made in a topic that has been re-created since.
    """
    cluster, progress = newest
    if committed.is_fresh:
        if own is None or own.offset != committed.offset:
            return Action.WAIT
        return Action.NOTHING if cluster == here else Action.APPLY
    mark = committed.mark
    if mark is not None and mark.order > progress.order:
        return Action.NOTHING
    if cluster != here or in_other_topic:
        return Action.APPLY
    # An offset that expired or was deleted stays so: the map is going to report the end as well.
    return Action.NOTHING if committed.offset in (None, progress.offset) else Action.PUT_BACK
