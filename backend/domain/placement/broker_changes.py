"""Detection of brokers that joined or left a cluster, from successive observations, and the placements to propose.

A broker has joined if it arrived without replicas and still holds none. A broker that was emptied while available
is meant to be empty, and so is one that was empty at the first observation of its cluster. A broker has left if it
holds replicas and has been away for long. Nothing is proposed while the status of a broker is unclear, and each
change is proposed once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from backend.domain.placement.placement_proposals import Proposal
from backend.domain.placement.placement_runs import RUNNING, PlacementState

_AGAIN = timedelta(minutes=10)
"""Pause before the retry after a failed plan; it doubles with each further failure."""
_LONGEST_PAUSE = timedelta(days=1)
_LARGEST_SHARE_AWAY = 3
"""If more than one in this many brokers has left, a network partition is more likely."""


@dataclass(frozen=True, kw_only=True)
class BrokerPresence:
    """The observed presence of a broker."""

    id: int
    is_here: bool
    is_empty: bool
    """True if it holds no replica, not even one that is still being copied to it."""
    came_empty: bool
    """True if it is here and has held no replica since it arrived."""
    was_emptied: bool
    """True if it holds no replica and was here when its last one was removed."""
    since: datetime
    """Time at which it arrived, or was first missed."""


def updated_presence(
    before: Mapping[int, BrokerPresence],
    seen: Mapping[int, tuple[bool, bool]],
    now: datetime,
    *,
    is_first: bool,
    is_late: bool,
) -> dict[int, BrokerPresence]:
    """Update what is known of the brokers with a further observation.

    Args:
        before: what was known, by id.
        seen: the observation, by id: is it here, is it empty. A broker that is neither here nor holds replicas
            may be missing.
        now: time of the observation.
        is_first: nothing was known of the cluster, so that its empty brokers are meant to be empty.
        is_late: the last observation is so old that brokers now away may have been here in between.
    """
    gone = {id_: (False, True) for id_, known in before.items() if known.was_emptied and id_ not in seen}
    found = {}
    for id_, (is_here, is_empty) in {**gone, **seen}.items():
        known = before.get(id_)
        goes_on = known is not None and known.is_here == is_here and not (is_late and not is_here)
        if known is None or not goes_on:
            came_empty = is_here and is_empty and not is_first
        else:
            came_empty = known.came_empty and is_empty
        emptied_now = known is not None and known.is_here and is_here and not known.is_empty
        found[id_] = BrokerPresence(
            id=id_,
            is_here=is_here,
            is_empty=is_empty,
            came_empty=came_empty,
            was_emptied=is_empty and known is not None and (known.was_emptied or emptied_now),
            since=known.since if known is not None and goes_on else now,
        )
    return found


class BrokerStatus(StrEnum):
    """The status of a broker that does not simply hold replicas."""

    SETTLING = "settling"
    """A broker that arrived recently and holds nothing."""
    JOINED = "joined"
    EMPTY = "empty"
    """A broker that holds nothing and is meant to be empty."""
    AWAY = "away"
    """A broker that is away, but not long enough to have left."""
    LEFT = "left"


_UNCLEAR = frozenset({BrokerStatus.SETTLING, BrokerStatus.AWAY})


def broker_status(
    broker: BrokerPresence, settled: timedelta, away: timedelta, now: datetime
) -> BrokerStatus | None:
    """Return the status of a broker; None if it simply holds replicas, or needs none.

    `settled` and `away` are the times after which an arrived broker has joined, and a missing one has left.
    """
    if not broker.is_here:
        if broker.is_empty:
            return None
        return BrokerStatus.LEFT if now - broker.since >= away else BrokerStatus.AWAY
    if not broker.is_empty:
        return None
    if not broker.came_empty:
        return BrokerStatus.EMPTY
    return BrokerStatus.JOINED if now - broker.since >= settled else BrokerStatus.SETTLING


@dataclass(frozen=True, kw_only=True)
class BrokerChange:
    """Brokers that have joined and left; both may be empty."""

    joined: tuple[int, ...]
    left: tuple[int, ...]
    returned: tuple[int, ...]
    """Brokers among `joined` that had been emptied before."""
    target_brokers: tuple[int, ...]
    """Brokers that are to hold replicas: all but those that have left or are meant to be empty."""
    brokers: int
    """Number of brokers of the cluster, including those that have left."""
    since: datetime | None
    """Time at which the last of them arrived or was first missed."""

    def __bool__(self) -> bool:
        return bool(self.joined or self.left)


def broker_change(
    brokers: Collection[BrokerPresence], settled: timedelta, away: timedelta, now: datetime
) -> BrokerChange | None:
    """Return the brokers that have joined and left; None while the status of a broker is unclear."""
    what = {each.id: broker_status(each, settled, away, now) for each in brokers}
    if not _UNCLEAR.isdisjoint(what.values()):
        return None
    known = {each.id: each for each in brokers}
    holds = any(not each.is_empty for each in brokers)
    joined = tuple(sorted(id_ for id_ in known if what[id_] is BrokerStatus.JOINED and holds))
    left = tuple(sorted(id_ for id_ in known if what[id_] is BrokerStatus.LEFT))
    target = tuple(
        sorted(id_ for id_, each in known.items() if each.is_here and what[id_] is not BrokerStatus.EMPTY)
    )
    return BrokerChange(
        joined=joined,
        left=left,
        returned=tuple(id_ for id_ in joined if known[id_].was_emptied),
        target_brokers=target,
        brokers=len(set(target) | set(left)),
        since=max((known[id_].since for id_ in (*joined, *left)), default=None),
    )


@dataclass(frozen=True, kw_only=True)
class EarlierPlacement:
    """An earlier placement of the cluster."""

    target_brokers: tuple[int, ...] | None
    """Requested target brokers; None means all brokers at that time."""
    is_given: bool
    """True if it was submitted as a reassignment, which does not choose where replicas go."""
    state: PlacementState
    time: datetime

    def answers(self, change: BrokerChange) -> bool:
        """Tell whether the placement fills the brokers that joined and empties those that left."""
        if self.is_given:
            return False
        if self.target_brokers is None:
            return not change.left
        return set(change.joined) <= set(self.target_brokers) and set(change.left).isdisjoint(self.target_brokers)


def should_propose(change: BrokerChange, earlier: Sequence[EarlierPlacement], now: datetime) -> bool:
    """Tell whether to propose a placement; `earlier` are the cluster's placements, the newest first."""
    if not change or change.since is None or not change.target_brokers:
        return False
    if any(each.state in RUNNING or each.state is PlacementState.REQUESTED for each in earlier):
        return False
    if earlier and earlier[0].state is PlacementState.PLANNED and earlier[0].answers(change):
        # Otherwise a broker that restarts repeatedly would have a placement proposed each time.
        return False
    mine = [each for each in earlier if each.time >= change.since and each.answers(change)]
    if any(each.state is not PlacementState.FAILED for each in mine):
        return False
    if not mine:
        return True
    doubled: int = 2 ** min(len(mine) - 1, 10)
    pause = min(_AGAIN * doubled, _LONGEST_PAUSE)
    return now - max(each.time for each in mine) >= pause


def hold_back_reason(proposal: Proposal, change: BrokerChange, violations: Mapping[str, int]) -> str | None:
    """Return the reason to leave a plan to an operator instead of applying it; None to apply it.

    Args:
        proposal: the change that the plan was made for.
        change: the present change.
        violations: the plan's violations, as the number of partitions by constraint.
    """
    if (change.joined, change.left) != (proposal.joined, proposal.left):
        return "the brokers that joined or left are no longer those that the plan was made for"
    if len(change.left) * _LARGEST_SHARE_AWAY > change.brokers:
        return (
            f"{len(change.left)} of {change.brokers} brokers are away at once: check for a network partition first"
        )
    if change.returned:
        names = ", ".join(map(str, change.returned))
        return f"the plan fills brokers that were emptied before ({names}): confirm that they are to be used again"
    if violations:
        names = ", ".join(f"{name} ({count})" for name, count in sorted(violations.items()))
        return f"the plan has violations: {names}"
    return None
