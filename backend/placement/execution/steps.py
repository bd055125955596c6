"""The steps of executing a placement plan, and the partitions that must not be touched.

Nothing here talks to a cluster or waits. A worker that applies a plan reads the cluster, gets `next_steps`, sends
them, and repeats until `stand` reports that nothing is left. Nothing has to be remembered in between but the
course itself: a partition's replicas show how far it is, so that work continues after a crash as if there had been
none.

One replica of a partition moves at a time. A step adds the new replica and drops the one that it replaces in one
reassignment (KIP-455), which Kafka completes when the new one is in sync: the old one serves until then. So a
partition never has fewer replicas than the lower of before and after, and a cancelled step wastes one copy at
most.

A partition is on its way from its original to its target if it has all brokers that both have, none that neither
has, and no more or fewer replicas than the two. Any other was changed by somebody else: it is reported and left
alone. This holds in both directions: a rollback follows the reversed course, from wherever the partition is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

Place = tuple[str, int]
"""A partition: topic and number."""
Brokers = tuple[int, ...]
"""Broker ids, the preferred replica first."""
Ongoing = Mapping[Place, tuple[Sequence[int], Sequence[int], Sequence[int]]]
"""Reassignments as Kafka lists them: all replicas, the ones being added, and the ones being removed."""

NO_LEADER = -1


@dataclass(frozen=True, kw_only=True)
class Course:
    """Replicas of each partition before and after the plan, the preferred broker first.

    Raises ValueError for a partition without an original, without replicas or with a broker twice.
    """

    originals: Mapping[Place, Brokers]
    targets: Mapping[Place, Brokers]

    def __post_init__(self) -> None:
        for place, target in self.targets.items():
            for brokers in (self.originals.get(place, ()), target):
                if not brokers or len(set(brokers)) < len(brokers):
                    raise ValueError(f"{name(place)} cannot have its replicas on {list(brokers)}")

    def reversed(self) -> Course:
        """Return the rollback course."""
        return Course(
            originals=self.targets,
            targets={place: brokers for place, brokers in self.originals.items() if place in self.targets},
        )


@dataclass(frozen=True, kw_only=True)
class ClusterNow:
    """The observed state of a cluster.

    Read reassignments before replicas: one that ends in between then counts as moving for a moment longer. In the
    opposite order, a move that has just ended would be requested again.
    """

    replicas: Mapping[Place, Sequence[int]]
    """Replicas of all partitions, including those outside the plan."""
    brokers: Mapping[int, str | None]
    """Brokers that are available, with their racks."""
    leaders: Mapping[Place, int] = field(default_factory=dict)
    """Leader of each partition; -1 if it has none."""
    ongoing: Ongoing = field(default_factory=dict)
    recreated: Collection[str] = ()
    """Topics whose id has changed since the plan was made, because they were deleted and created again."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of concurrent moves.

    A broker takes part in a move by getting the replica, by giving it up, or as the leader that it is copied from.
    Moves requested by others count against a broker, but not against `partitions_at_once`. Moves that wait for an
    unavailable broker do not count, since they load no broker.
    """

    moves_per_broker: int
    partitions_at_once: int

    def __post_init__(self) -> None:
        if self.moves_per_broker < 1 or self.partitions_at_once < 1:
            raise ValueError("limits must be 1 or more, or no replica would ever move")


@dataclass(frozen=True, slots=True)
class Flight:
    """An ongoing reassignment of this plan: replicas before this step, those being added, those removed."""

    before: Brokers
    adding: Brokers
    removing: Brokers


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The position of each partition on its course; each partition is in exactly one of the first five fields."""

    arrived: list[Place] = field(default_factory=list)
    moving: dict[Place, Flight] = field(default_factory=dict)
    pending: dict[Place, Brokers] = field(default_factory=dict)
    """Partitions that are neither moving nor at their target, with their present replicas."""
    gone: list[Place] = field(default_factory=list)
    """Partitions whose topic was deleted, or deleted and created again."""
    changed_by_others: dict[Place, Brokers] = field(default_factory=dict)
    """Partitions that somebody else has changed, with the replicas that they have or are getting."""
    grown: list[Place] = field(default_factory=list)
    """New partitions of the course's topics, which the course does not cover."""

    @property
    def is_finished(self) -> bool:
        """Return True if nothing is left to request, now or later."""
        return not self.moving and not self.pending


@dataclass(frozen=True, kw_only=True)
class Steps:
    """The reassignments to request now, and the partitions that are blocked."""

    ask: dict[Place, Brokers]
    waiting: dict[Place, str]
    """Blocked partitions with the reason in words; those that only wait for their turn are not included."""


def name(place: Place) -> str:
    """Return the usual notation of a partition: topic-number."""
    return f"{place[0]}-{place[1]}"


def stand(course: Course, now: ClusterNow) -> Standing:
    """Determine the position of each partition on its course."""
    standing, recreated = Standing(), frozenset(now.recreated)
    for place in sorted(course.targets):
        replicas = now.replicas.get(place)
        if replicas is None or place[0] in recreated:
            standing.gone.append(place)
        elif place in now.ongoing:
            _stand_moving(standing, course, place, now.ongoing[place])
        elif (brokers := tuple(replicas)) == course.targets[place]:
            standing.arrived.append(place)
        elif is_on_the_way(course, place, brokers):
            standing.pending[place] = brokers
        else:
            standing.changed_by_others[place] = brokers
    topics = {topic for topic, _ in course.targets} - recreated
    standing.grown.extend(
        sorted(place for place in now.replicas if place[0] in topics and place not in course.targets)
    )
    return standing


def _stand_moving(
    standing: Standing, course: Course, place: Place, ongoing: tuple[Sequence[int], Sequence[int], Sequence[int]]
) -> None:
    replicas, adding, removing = (tuple(each) for each in ongoing)
    before = tuple(broker for broker in replicas if broker not in adding)
    after = tuple(broker for broker in replicas if broker not in removing)
    if is_on_the_way(course, place, before) and is_on_the_way(course, place, after):
        standing.moving[place] = Flight(before, adding, removing)
    else:
        standing.changed_by_others[place] = after


def is_on_the_way(course: Course, place: Place, brokers: Sequence[int]) -> bool:
    """Tell whether steps of the course, forward or back, can have given a partition these replicas."""
    here, original, target = set(brokers), set(course.originals[place]), set(course.targets[place])
    least, most = sorted((len(original), len(target)))
    return original & target <= here <= original | target and least <= len(here) <= most


def next_steps(course: Course, now: ClusterNow, limits: Limits, standing: Standing | None = None) -> Steps:
    """Choose the replicas to request, by partition, so that limits hold together with the ongoing moves.

    Partitions with an unavailable broker go first, because they are at risk until they have moved; others go by
    name. The same state has the same answer. Pass `standing` to avoid computing it again.
    """
    here = standing or stand(course, now)
    waiting: dict[Place, str] = {}
    busy: Counter[int] = Counter()
    at_once = 0
    for place, (_, adding, removing) in now.ongoing.items():
        reason = _blocked_by(adding, now.leaders.get(place), now.brokers)
        if reason is None:
            busy.update(_takes_part(adding, removing, now.leaders.get(place)))
            at_once += place in here.moving
        elif place in here.moving:
            waiting[place] = reason
    ask: dict[Place, Brokers] = {}
    for place in sorted(here.pending, key=lambda each: (_is_whole(here.pending[each], now.brokers), each)):
        brokers = here.pending[place]
        leader = now.leaders.get(place)
        step = _step(brokers, course.targets[place], leader, now.brokers)
        adding = [broker for broker in step if broker not in brokers]
        reason = _blocked_by(adding, leader, now.brokers)
        if reason is not None:
            waiting[place] = reason
            continue
        part = _takes_part(adding, [broker for broker in brokers if broker not in step], leader)
        if at_once < limits.partitions_at_once and all(busy[each] < limits.moves_per_broker for each in part):
            ask[place] = step
            busy.update(part)
            at_once += 1
    return Steps(ask=ask, waiting=waiting)


def to_cancel(
    course: Course, now: ClusterNow, standing: Standing | None = None, *, only_wrong_way: bool = False
) -> dict[Place, None]:
    """Return the plan's reassignments to cancel (KIP-455 takes None for that).

    Each partition then has the brokers of before its present step, perhaps in another order. With
    `only_wrong_way`, only steps that lead away from the target are returned, as forward moves do once a rollback
    begins.
    """
    found: dict[Place, None] = {}
    for place, flight in (standing or stand(course, now)).moving.items():
        target = course.targets[place]
        leads_away = any(broker not in target for broker in flight.adding) or any(
            broker in target for broker in flight.removing
        )
        if leads_away or not only_wrong_way:
            found[place] = None
    return found


def to_elect(course: Course, now: ClusterNow, standing: Standing | None = None) -> list[Place]:
    """Return the partitions at their target that another broker leads although the preferred one is available."""
    return [
        place
        for place in (standing or stand(course, now)).arrived
        if now.leaders.get(place, NO_LEADER) != course.targets[place][0]
        and course.targets[place][0] in now.brokers
    ]


def throttled(course: Course) -> dict[Place, tuple[Brokers, Brokers]]:
    """Return for each partition with a new replica the brokers to throttle as leaders, and those as followers.

    A new replica may lead, and be copied from, before the last one is in sync, so old and new replicas are all on
    the leaders' side. Kafka throttles only replicas that are not in sync (KIP-73), so that replicas that stay are
    not slowed down.
    """
    found: dict[Place, tuple[Brokers, Brokers]] = {}
    for place, target in course.targets.items():
        original = course.originals[place]
        getting = tuple(broker for broker in target if broker not in original)
        if getting:
            found[place] = (original + getting, getting)
    return found


def _step(brokers: Brokers, target: Brokers, leader: int | None, available: Mapping[int, str | None]) -> Brokers:
    """Return the next list of replicas: one added, one dropped, or both.

    Once the brokers equal those of the target, it is the target itself, so that the last step sets the order.
    """
    adding = [broker for broker in target if broker not in brokers]
    dropping = [broker for broker in brokers if broker not in target]
    # An unavailable broker cannot receive a replica. If all are unavailable, the first one is reported as missing.
    adding = [broker for broker in adding if broker in available] or adding[:1]
    if not adding:
        gone = min(dropping, key=lambda each: (each in available, each == leader, each), default=None)
        step = tuple(broker for broker in brokers if broker != gone)
    elif len(brokers) < len(target):
        step = (*brokers, adding[0])
    else:
        new, old = min(
            ((new, old) for new in adding for old in dropping),
            key=lambda pair: (
                pair[1] in available,
                pair[1] == leader,
                available.get(pair[0]) != available.get(pair[1]),
                target.index(pair[0]),
                brokers.index(pair[1]),
            ),
        )
        step = tuple(new if broker == old else broker for broker in brokers)
    return target if set(step) == set(target) else step


def _takes_part(adding: Sequence[int], removing: Sequence[int], leader: int | None) -> set[int]:
    """Return the brokers that a step loads; none if nothing is copied."""
    if not adding:
        return set()
    return {*adding, *removing, *(() if leader is None else (leader,))}


def _blocked_by(adding: Sequence[int], leader: int | None, available: Mapping[int, str | None]) -> str | None:
    """Return the reason that blocks a step at present; None if there is none."""
    away = sorted(broker for broker in adding if broker not in available)
    if away:
        return f"broker {away[0]}, which is to get a replica, is unavailable"
    if leader == NO_LEADER:
        return "it has no leader to copy a replica from"
    return None


def _is_whole(brokers: Brokers, available: Mapping[int, str | None]) -> bool:
    return all(broker in available for broker in brokers)
