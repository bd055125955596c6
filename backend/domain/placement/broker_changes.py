"""Which brokers of a cluster have come or gone, as told from one look after another, and what is to be asked for.

A broker has joined if it came without replicas and holds none yet. One that was emptied while it was here is meant
to be empty, and so is one that was empty when the cluster was first looked at. A broker has left if it holds
replicas and is away for long. Nothing is asked for while it is not clear what a broker does: each change of that
kind is asked for once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from backend.domain.placement.placement_proposals import Proposal
from backend.domain.placement.placement_runs import RUNNING, PlacementState

_AGAIN = timedelta(minutes=10)
"""After a plan that failed; twice as long after each further one."""
_LONGEST_PAUSE = timedelta(days=1)
_LARGEST_SHARE_AWAY = 3
"""If more than one in so many brokers has left, that is a cut in the network rather."""


@dataclass(frozen=True, kw_only=True)
class BrokerPresence:
    """What is known of a broker."""

    id: int
    is_here: bool
    is_empty: bool
    """It holds no replica, not even one that is only being copied to it."""
    came_empty: bool
    """It is here, and has held none since it came."""
    was_emptied: bool
    """It holds none, and was here when its last one went."""
    since: datetime
    """When it came, or was first missed."""


def seen_again(
    before: Mapping[int, BrokerPresence],
    seen: Mapping[int, tuple[bool, bool]],
    now: datetime,
    *,
    is_first: bool,
    is_late: bool,
) -> dict[int, BrokerPresence]:
    """What is known after a further look.

    Args:
        before: by id; what was known.
        seen: by id: is it here, is it empty. One that is neither here nor holds anything may be missing.
        now: of the look.
        is_first: nothing was known of the cluster: its empty brokers are meant to be.
        is_late: nobody has looked for so long that who is away may have been here meanwhile.
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


class Doing(StrEnum):
    """What there is to say of a broker that does not just hold replicas."""

    SETTLING = "settling"
    """It came just now, and holds nothing."""
    JOINED = "joined"
    EMPTY = "empty"
    """It holds nothing, and is meant to."""
    AWAY = "away"
    """It is away, but not for long enough to have left."""
    LEFT = "left"


_UNCLEAR = frozenset({Doing.SETTLING, Doing.AWAY})


def doing(broker: BrokerPresence, settled: timedelta, away: timedelta, now: datetime) -> Doing | None:
    """`settled`, `away`: after how long a broker that came, or went, has joined, or left."""
    if not broker.is_here:
        if broker.is_empty:
            return None
        return Doing.LEFT if now - broker.since >= away else Doing.AWAY
    if not broker.is_empty:
        return None
    if not broker.came_empty:
        return Doing.EMPTY
    return Doing.JOINED if now - broker.since >= settled else Doing.SETTLING


@dataclass(frozen=True, kw_only=True)
class BrokerChange:
    """Brokers that have come and gone; both may be empty."""

    joined: tuple[int, ...]
    left: tuple[int, ...]
    returned: tuple[int, ...]
    """Of those that joined: they had been emptied before."""
    target_brokers: tuple[int, ...]
    """Brokers that are to hold replicas: all but those that have left or are meant to be empty."""
    brokers: int
    """How many the cluster has, with those that have left."""
    since: datetime | None
    """When the last of them came or went."""

    def __bool__(self) -> bool:
        return bool(self.joined or self.left)


def broker_change(
    brokers: Collection[BrokerPresence], settled: timedelta, away: timedelta, now: datetime
) -> BrokerChange | None:
    """What has changed; None: that is not clear yet."""
    what = {each.id: doing(each, settled, away, now) for each in brokers}
    if not _UNCLEAR.isdisjoint(what.values()):
        return None
    known = {each.id: each for each in brokers}
    holds = any(not each.is_empty for each in brokers)
    joined = tuple(sorted(id_ for id_ in known if what[id_] is Doing.JOINED and holds))
    left = tuple(sorted(id_ for id_ in known if what[id_] is Doing.LEFT))
    target = tuple(sorted(id_ for id_, each in known.items() if each.is_here and what[id_] is not Doing.EMPTY))
    return BrokerChange(
        joined=joined,
        left=left,
        returned=tuple(id_ for id_ in joined if known[id_].was_emptied),
        target_brokers=target,
        brokers=len(set(target) | set(left)),
        since=max((known[id_].since for id_ in (*joined, *left)), default=None),
    )


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A placement of the cluster that was asked for before."""

    target_brokers: tuple[int, ...] | None
    """None: all that were here."""
    is_given: bool
    """A reassignment was handed in: it was not asked where replicas are to go."""
    state: PlacementState
    time: datetime

    def answers(self, change: BrokerChange) -> bool:
        """Whether it fills those that joined, and not those that left."""
        if self.is_given:
            return False
        if self.target_brokers is None:
            return not change.left
        return set(change.joined) <= set(self.target_brokers) and set(change.left).isdisjoint(self.target_brokers)


def is_to_be_asked(change: BrokerChange, asked: Sequence[Asked], now: datetime) -> bool:
    """Whether a placement is to be asked for; `asked`: those of the cluster, the newest first."""
    if not change or change.since is None or not change.target_brokers:
        return False
    if any(each.state in RUNNING or each.state is PlacementState.REQUESTED for each in asked):
        return False
    if asked and asked[0].state is PlacementState.PLANNED and asked[0].answers(change):
        # A broker that is started again and again would have one made each time.
        return False
    mine = [each for each in asked if each.time >= change.since and each.answers(change)]
    if any(each.state is not PlacementState.FAILED for each in mine):
        return False
    if not mine:
        return True
    doubled: int = 2 ** min(len(mine) - 1, 10)
    pause = min(_AGAIN * doubled, _LONGEST_PAUSE)
    return now - max(each.time for each in mine) >= pause


def why_held_back(proposal: Proposal, change: BrokerChange, violations: Mapping[str, int]) -> str | None:
    """Why a plan is not applied by itself; None: it is.

    Args:
        proposal: what it was made for.
        change: as it is now.
        violations: what the plan does not keep, by constraint, with the number of partitions.
    """
    if (change.joined, change.left) != (proposal.joined, proposal.left):
        return "other brokers have come or gone since than those that it was made for"
    if len(change.left) * _LARGEST_SHARE_AWAY > change.brokers:
        return (
            f"{len(change.left)} of {change.brokers} brokers are away at once: see whether they are cut off only"
        )
    if change.returned:
        those = ", ".join(map(str, change.returned))
        return f"it fills brokers that had been emptied before ({those}): say whether they are to be used again"
    if violations:
        those = ", ".join(f"{name} ({count})" for name, count in sorted(violations.items()))
        return f"it cannot keep everything: {those}"
    return None
