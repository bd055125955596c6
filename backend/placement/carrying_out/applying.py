"""Carrying a placement out: what to ask a cluster for next, and what there is that is not ours to touch.

Nothing here asks a cluster or waits. Who applies a plan reads the cluster, asks for `next_steps`, sends them, and
begins anew until `stand` says that nothing is left. Nothing has to be remembered in between but the course itself:
where a partition is on it is told by its replicas, so it goes on after a crash as if there had been none.

One replica of a partition moves at a time. A step adds the new replica and drops the one that it replaces in one
reassignment (KIP-455), which Kafka ends when the new one is in sync: the old one serves until then. So a partition
never has fewer replicas than the lower of before and after, and a step given back wastes one copy at most.

A partition is on the way from its original to its target if it has all brokers that both have, none that neither
has, and no more or fewer replicas than the two. Any other was changed by somebody else: named, and left alone.
The way is the same in both directions: to roll back is to follow the course reversed, from wherever it has come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

Place = tuple[str, int]
"""A partition: topic and number."""
Brokers = tuple[int, ...]
"""Ids, the preferred one first."""
Ongoing = Mapping[Place, tuple[Sequence[int], Sequence[int], Sequence[int]]]
"""Reassignments as Kafka lists them: all replicas, those of them that are being added, those that are to go."""

NO_LEADER = -1


@dataclass(frozen=True, kw_only=True)
class Course:
    """From where to where: replicas of each partition before and after, the preferred broker first.

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
        """The way back."""
        return Course(
            originals=self.targets,
            targets={place: brokers for place, brokers in self.originals.items() if place in self.targets},
        )


@dataclass(frozen=True, kw_only=True)
class ClusterNow:
    """What a cluster has. Reassignments are to be read before replicas: one that ended in between then counts as
    moving for a moment longer; the other way round, what has moved would be asked for again."""

    replicas: Mapping[Place, Sequence[int]]
    """Of all partitions, also those that no plan speaks of."""
    brokers: Mapping[int, str | None]
    """Those that are there and answer, with their racks."""
    leaders: Mapping[Place, int] = field(default_factory=dict)
    """-1 where there is none."""
    ongoing: Ongoing = field(default_factory=dict)
    anew: Collection[str] = ()
    """Topics whose id is another than when the plan was made: deleted and created again."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much may go on at once. A broker takes part in a move by getting the replica, by giving it up, or as the
    leader that it is copied from; moves of others count there too, but not among the partitions. What waits for a
    broker that is away does not count: it loads nobody."""

    moves_per_broker: int
    partitions_at_once: int

    def __post_init__(self) -> None:
        if self.moves_per_broker < 1 or self.partitions_at_once < 1:
            raise ValueError("with a limit below 1 nothing would ever move")


@dataclass(frozen=True, slots=True)
class Flight:
    """A reassignment of ours that is going on: replicas as they were before this step, those being added, those
    that go when it ends."""

    before: Brokers
    adding: Brokers
    removing: Brokers


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where each partition of a course is; each in one of the first five."""

    arrived: list[Place] = field(default_factory=list)
    moving: dict[Place, Flight] = field(default_factory=dict)
    pending: dict[Place, Brokers] = field(default_factory=dict)
    """Not moving and not there yet, with their replicas now."""
    gone: list[Place] = field(default_factory=list)
    """Their topic was deleted, or is another one of the same name."""
    strangers: dict[Place, Brokers] = field(default_factory=dict)
    """Changed by somebody else, with the replicas that they have or are getting."""
    grown: list[Place] = field(default_factory=list)
    """Partitions of the course's topics that it says nothing of."""

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left that could be asked for, now or later."""
        return not self.moving and not self.pending


@dataclass(frozen=True, kw_only=True)
class Steps:
    """What to ask for now, and what cannot go on."""

    ask: dict[Place, Brokers]
    waiting: dict[Place, str]
    """Partitions that nothing can be done for at present, with the reason in words. Those that only wait for their
    turn are not among them."""


def name(place: Place) -> str:
    """As people write it."""
    return f"{place[0]}-{place[1]}"


def stand(course: Course, now: ClusterNow) -> Standing:
    """Where each partition of the course is."""
    standing, anew = Standing(), frozenset(now.anew)
    for place in sorted(course.targets):
        replicas = now.replicas.get(place)
        if replicas is None or place[0] in anew:
            standing.gone.append(place)
        elif place in now.ongoing:
            _stand_moving(standing, course, place, now.ongoing[place])
        elif (brokers := tuple(replicas)) == course.targets[place]:
            standing.arrived.append(place)
        elif is_on_the_way(course, place, brokers):
            standing.pending[place] = brokers
        else:
            standing.strangers[place] = brokers
    topics = {topic for topic, _ in course.targets} - anew
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
        standing.strangers[place] = after


def is_on_the_way(course: Course, place: Place, brokers: Sequence[int]) -> bool:
    """Whether a partition with these replicas can have come there by steps of the course, forth or back."""
    here, original, target = set(brokers), set(course.originals[place]), set(course.targets[place])
    least, most = sorted((len(original), len(target)))
    return original & target <= here <= original | target and least <= len(here) <= most


def next_steps(course: Course, now: ClusterNow, limits: Limits, standing: Standing | None = None) -> Steps:
    """Replicas to ask for, by partition, so that no limit is exceeded by them and what goes on already.

    Partitions that lack a broker go first: they are at risk until they have moved. Otherwise they go by name. The
    same question has the same answer. `standing` spares finding it again.
    """
    here = standing or stand(course, now)
    waiting: dict[Place, str] = {}
    busy: Counter[int] = Counter()
    at_once = 0
    for place, (_, adding, removing) in now.ongoing.items():
        reason = _holds_up(adding, now.leaders.get(place), now.brokers)
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
        reason = _holds_up(adding, leader, now.brokers)
        if reason is not None:
            waiting[place] = reason
            continue
        part = _takes_part(adding, [broker for broker in brokers if broker not in step], leader)
        if at_once < limits.partitions_at_once and all(busy[each] < limits.moves_per_broker for each in part):
            ask[place] = step
            busy.update(part)
            at_once += 1
    return Steps(ask=ask, waiting=waiting)


def give_back(
    course: Course, now: ClusterNow, standing: Standing | None = None, *, only_astray: bool = False
) -> dict[Place, None]:
    """Reassignments of ours to cancel (KIP-455 takes None for that): each partition then has the brokers that it
    had before its present step, in an order that may be another one.

    `only_astray`: those alone that lead away from the target, as forward moves do once the way back is taken.
    """
    found: dict[Place, None] = {}
    for place, flight in (standing or stand(course, now)).moving.items():
        target = course.targets[place]
        leads_away = any(broker not in target for broker in flight.adding) or any(
            broker in target for broker in flight.removing
        )
        if leads_away or not only_astray:
            found[place] = None
    return found


def to_elect(course: Course, now: ClusterNow, standing: Standing | None = None) -> list[Place]:
    """Partitions that have arrived and are led by another broker than the preferred one, which is there."""
    return [
        place
        for place in (standing or stand(course, now)).arrived
        if now.leaders.get(place, NO_LEADER) != course.targets[place][0]
        and course.targets[place][0] in now.brokers
    ]


def throttled(course: Course) -> dict[Place, tuple[Brokers, Brokers]]:
    """By partition that copies anything: brokers that may be copied from, and those that get a replica.

    A new replica may lead, and be copied from, before the last one has come; so all of both are on the first side.
    Kafka holds back only replicas that are not in sync (KIP-73), so those that stay are not slowed down.
    """
    found: dict[Place, tuple[Brokers, Brokers]] = {}
    for place, target in course.targets.items():
        original = course.originals[place]
        getting = tuple(broker for broker in target if broker not in original)
        if getting:
            found[place] = (original + getting, getting)
    return found


def _step(brokers: Brokers, target: Brokers, leader: int | None, there: Mapping[int, str | None]) -> Brokers:
    """The next list of replicas: one added, one dropped, or both; the target itself as soon as its brokers are the
    same, so that the order is set by the last step."""
    adding = [broker for broker in target if broker not in brokers]
    dropping = [broker for broker in brokers if broker not in target]
    # One that is away cannot be copied to. If all are, the first stands for them, and is told to be missing.
    adding = [broker for broker in adding if broker in there] or adding[:1]
    if not adding:
        gone = min(dropping, key=lambda each: (each in there, each == leader, each), default=None)
        step = tuple(broker for broker in brokers if broker != gone)
    elif len(brokers) < len(target):
        step = (*brokers, adding[0])
    else:
        new, old = min(
            ((new, old) for new in adding for old in dropping),
            key=lambda pair: (
                pair[1] in there,
                pair[1] == leader,
                there.get(pair[0]) != there.get(pair[1]),
                target.index(pair[0]),
                brokers.index(pair[1]),
            ),
        )
        step = tuple(new if broker == old else broker for broker in brokers)
    return target if set(step) == set(target) else step


def _takes_part(adding: Sequence[int], removing: Sequence[int], leader: int | None) -> set[int]:
    """Brokers that a step loads: none if nothing is copied."""
    if not adding:
        return set()
    return {*adding, *removing, *(() if leader is None else (leader,))}


def _holds_up(adding: Sequence[int], leader: int | None, there: Mapping[int, str | None]) -> str | None:
    """Why nothing can be done at present."""
    away = sorted(broker for broker in adding if broker not in there)
    if away:
        return f"broker {away[0]}, which is to get a replica, is not there"
    if leader == NO_LEADER:
        return "it has no leader that a replica could be copied from"
    return None


def _is_whole(brokers: Brokers, there: Mapping[int, str | None]) -> bool:
    return all(broker in there for broker in brokers)
