"""What the offset committer of a cluster does about one group's offset of one partition: the rules of design,
"Offsets", "Rules of the committer".

What is known is the group's progress on all clusters (the map), and what stands in the group here. Progress is
ordered by (generation, time of the commit), and a committed offset never goes back in that order, whatever order
maps arrive in.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from backend.domain.offsets.commit_metadata import CommitMark, decode, is_ours
from backend.domain.offsets.offset_map import LATEST_MS, Progress


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What a group has committed on a cluster, for one partition."""

    offset: int | None
    """None: nothing."""
    metadata: str | None = None

    @property
    def mark(self) -> CommitMark | None:
        """Of an offset that a committer set."""
        return decode(self.metadata)

    @property
    def is_fresh(self) -> bool:
        """Whether an application, or an operator, committed it here."""
        return self.offset is not None and not is_ours(self.metadata)


class Action(StrEnum):
    """What to do."""

    NOTHING = "nothing"
    """What stands is later progress, or the group's own."""
    APPLY = "apply"
    """Set the offset at which the progress made elsewhere goes on here."""
    PUT_BACK = "put-back"
    """Set the offset that the group committed here itself: older progress had taken its place."""
    WAIT = "wait"
    """What stands here is not on the map yet: which of the two is newer will be known then."""


@dataclass(frozen=True)
class OwnCommit:
    """What a group committed last on a cluster, as it was read there."""

    offset: int
    ordered_ms: int
    """The time by which it is ordered."""
    broker_ms: int | None
    """The time that the broker gave it; None: not known any more."""
    read_at: int | None = None
    """Where it stood in the cluster's log of commits; None: not known any more."""

    def is_behind(self, read_at: int, broker_ms: int | None) -> bool:
        """Whether it came later than what was read there (None: a tombstone), whoever deals with that only now. By
        both: a log that was cut off gives places a second time."""
        if self.read_at is None or read_at >= self.read_at:
            return False
        return broker_ms is None or self.broker_ms is None or broker_ms <= self.broker_ms

    def is_same(self, offset: int, broker_ms: int) -> bool:
        """Whether this is the same commit, read once more."""
        if self.broker_ms is None:
            return self.offset == offset and broker_ms <= self.ordered_ms
        return (self.offset, self.broker_ms) == (offset, broker_ms)


def commit_time(at_ms: int, offset: int, own: OwnCommit | None, applied_ms: int | None) -> int:
    """The time by which a commit is ordered: the broker's, or, where clocks of brokers differ, later than what the
    group had done on the same cluster before.

    `own`: its commit before on that cluster; `applied_ms`: the time of the progress that had been applied there.
    Both came before it, whatever the clocks say.
    """
    if own is not None and own.is_same(offset, at_ms):
        return own.ordered_ms
    before = [each for each in (own.ordered_ms if own else None, applied_ms) if each is not None]
    return min(max([at_ms, *(each + 1 for each in before)]), LATEST_MS)


def decide(
    here: str,
    newest: tuple[str, Progress],
    own: Progress | None,
    standing: Standing,
    *,
    in_other_topic: bool = False,
) -> Action:
    """`newest`: the group's latest progress, with the cluster where it was made; `own`: that made here;
    `in_other_topic`: that was in a topic which was made anew since."""
    cluster, progress = newest
    if standing.is_fresh:
        if own is None or own.offset != standing.offset:
            return Action.WAIT
        return Action.NOTHING if cluster == here else Action.APPLY
    mark = standing.mark
    if mark is not None and mark.order > progress.order:
        return Action.NOTHING
    if cluster != here or in_other_topic:
        return Action.APPLY
    # One that expired, or was deleted, stays so: the map will say it, too.
    return Action.NOTHING if standing.offset in (None, progress.offset) else Action.PUT_BACK
