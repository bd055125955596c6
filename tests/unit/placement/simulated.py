"""A simulation of Kafka's reassignments (KIP-455) that completes them one by one and checks the steps.

It follows PartitionReassignmentReplicas: while a reassignment is in progress, the list is the new one followed by
the removed replicas; a change of order alone takes effect at once; after a cancellation, the list lacks what was
added.
"""

from __future__ import annotations

from backend.placement.execution.steps import (
    NO_LEADER,
    Brokers,
    ClusterNow,
    Course,
    Limits,
    Place,
    Steps,
    is_on_the_way,
    next_steps,
    stand,
)


class Simulated:
    """Replicas, reassignments and leaders; a leader stays as long as it has a replica."""

    def __init__(self, course: Course, racks: dict[int, str | None]) -> None:
        self.replicas: dict[Place, Brokers] = dict(course.originals)
        self.leaders = {place: brokers[0] for place, brokers in course.originals.items()}
        self.ongoing: dict[Place, tuple[Brokers, Brokers, Brokers]] = {}
        self.brokers = racks
        self.asked = 0

    def now(self) -> ClusterNow:
        return ClusterNow(
            replicas=dict(self.replicas),
            brokers=dict(self.brokers),
            leaders=dict(self.leaders),
            ongoing=dict(self.ongoing),
        )

    def alter(self, place: Place, wanted: Brokers) -> None:
        """Begin a reassignment."""
        self.asked += 1
        before = self.replicas[place]
        adding = tuple(broker for broker in wanted if broker not in before)
        removing = tuple(broker for broker in before if broker not in wanted)
        self.replicas[place] = wanted + removing
        self.ongoing[place] = (wanted + removing, adding, removing)
        if not adding and not removing:
            self.complete(place)

    def complete(self, place: Place) -> None:
        """Complete a reassignment: the added replicas are in sync."""
        replicas, _, removing = self.ongoing.pop(place)
        self._settle(place, tuple(broker for broker in replicas if broker not in removing))

    def cancel(self, place: Place) -> None:
        replicas, adding, _ = self.ongoing.pop(place)
        self._settle(place, tuple(broker for broker in replicas if broker not in adding))

    def _settle(self, place: Place, brokers: Brokers) -> None:
        self.replicas[place] = brokers
        if self.leaders[place] not in brokers:
            self.leaders[place] = brokers[0]

    def advance(self, course: Course, limits: Limits) -> Steps:
        """Compute the next steps, check that they are allowed, and begin them."""
        now = self.now()
        standing = stand(course, now)
        steps = next_steps(course, now, limits)
        assert steps == next_steps(course, now, limits, standing), "the same question has two answers"
        for place, wanted in steps.ask.items():
            self._check_step(course, place, wanted)
            self.alter(place, wanted)
        self._check_limits(limits, steps)
        assert not next_steps(course, self.now(), limits).ask.keys() & self.ongoing.keys()
        return steps

    def _check_step(self, course: Course, place: Place, wanted: Brokers) -> None:
        assert place not in self.ongoing, "a partition that is moving gets a new step"
        before, target = self.replicas[place], course.targets[place]
        adding, removing = set(wanted) - set(before), set(before) - set(wanted)
        assert len(set(wanted)) == len(wanted)
        assert len(adding) <= 1 and len(removing) <= 1, "more than one replica moves at a time"
        assert len(wanted) >= min(len(course.originals[place]), len(target)), (
            "fewer replicas than before and after"
        )
        assert adding <= set(target) and not removing & set(target)
        assert is_on_the_way(course, place, wanted)
        assert adding <= self.brokers.keys(), "an unavailable broker gets a replica"
        live = {broker for broker in before if broker not in target and broker in self.brokers}
        if self.leaders[place] in removing:
            assert live == removing, "the leader leaves before other replicas"

    def _check_limits(self, limits: Limits, steps: Steps) -> None:
        """Check the limits of the brokers that take part in steps begun just now.

        Elsewhere a leader that failed may have left its moves to a broker that had its share already.
        """
        counted: dict[int, int] = {}
        flying = 0
        for place, moving in self.ongoing.items():
            if set(moving[1]) <= self.brokers.keys() and self.leaders[place] != NO_LEADER:
                flying += 1
                for broker in self._takes_part(place):
                    counted[broker] = counted.get(broker, 0) + 1
        begun = steps.ask.keys() & self.ongoing.keys()
        assert not begun or flying <= limits.partitions_at_once
        for place in begun:
            assert all(counted[broker] <= limits.moves_per_broker for broker in self._takes_part(place))

    def _takes_part(self, place: Place) -> set[int]:
        _, adding, removing = self.ongoing[place]
        return {*adding, *removing, self.leaders[place]} if adding else set()
