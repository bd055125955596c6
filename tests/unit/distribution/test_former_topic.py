"""A topic that was made anew: no loss goes untold, and nothing is said to be lost for certain that is not."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from backend.domain.distribution import rescan
from backend.domain.distribution.former_topic import Unread, of_present_topic, unread
from backend.domain.distribution.rescan import Checkpoint
from backend.domain.records.marks import Mark, Position

SOURCE, ELSEWHERE = 1, 3
ANEW = ((0, 2),)


def position(offset, seen, incarnation=1):
    return Position(offset, Mark(incarnation, 1, seen, {}))


def lost(own=None, covered=None, *, incarnations=ANEW, carried=(SOURCE,), checkpoints=(), seen_end=None):
    return unread(
        SOURCE, incarnations, carried, own=own, covered=covered or {}, checkpoints=checkpoints, seen_end=seen_end
    )


AT_50 = position(50, {SOURCE: (1, 49)})
ALL_COPIED = {SOURCE: (1, 49)}
READ_ON = Checkpoint(57, 1, {SOURCE: (1, 56)})
OTHERS = Checkpoint(57, 1, {SOURCE: (1, 49), ELSEWHERE: (1, 6)})


@pytest.mark.parametrize(
    ("found", "first", "at_least"),
    [
        pytest.param(lost(AT_50, ALL_COPIED), 50, 0, id="all that was seen had been copied"),
        pytest.param(lost(AT_50, ALL_COPIED, seen_end=(1, 57)), 50, 7, id="seven waited while it was paused"),
        pytest.param(
            lost(AT_50, ALL_COPIED, checkpoints=[READ_ON]), 50, 7, id="another distributor read seven more"
        ),
        pytest.param(lost(AT_50, ALL_COPIED, checkpoints=[OTHERS]), 57, 0, id="which this edge does not carry"),
        pytest.param(
            lost(AT_50, {**ALL_COPIED, ELSEWHERE: (1, 6)}, carried=(1, 3), checkpoints=[OTHERS]),
            57,
            0,
            id="or which the target has by another way",
        ),
        pytest.param(
            lost(AT_50, ALL_COPIED, carried=(1, 3), checkpoints=[OTHERS]), 50, 0, id="or which come again, or not"
        ),
        pytest.param(lost(AT_50, ALL_COPIED, seen_end=(3, 57)), 50, 0, id="an end of another topic says nothing"),
        pytest.param(lost(None, ALL_COPIED), 50, 0, id="the position is forgotten, the vector tells"),
        pytest.param(lost(None, ALL_COPIED, carried=(1, 3)), 0, 0, id="but not of what came from elsewhere"),
        pytest.param(
            lost(AT_50, {SOURCE: (1, 53)}, carried=(1, 3), seen_end=(1, 57)), 50, 3, id="some came by another way"
        ),
        pytest.param(
            lost(AT_50, {SOURCE: (2, 0)}, seen_end=(1, 57)), 50, 0, id="all seven may have come by another way"
        ),
        pytest.param(lost(position(50, {}), {}), 50, 0, id="without origins the position is all there is"),
    ],
)
def test_what_may_be_lost_begins_where_the_vector_ends(found, first, at_least):
    assert found == Unread(first_offset=first, at_least=at_least)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(lost(AT_50, ALL_COPIED, incarnations=((0, 1),)), id="it is the topic of before"),
        pytest.param(
            lost(AT_50, ALL_COPIED, incarnations=((0, 1), (40, 2))), id="its log was cut off, told otherwise"
        ),
        pytest.param(lost(None, {SOURCE: (2, 0)}), id="the target has records of the new topic: it was told"),
        pytest.param(lost(position(3, {}, 2), ALL_COPIED), id="this unit reads the new topic: it was told"),
        pytest.param(lost(None, {ELSEWHERE: (1, 6)}), id="the target has nothing of it yet"),
    ],
)
def test_no_loss_is_told_where_the_vector_proves_that_there_is_none_to_tell(found):
    assert found is None


# --- random histories


@dataclass
class Told:
    incarnation: int
    former: int
    unread: Unread

    def names(self, incarnation, offset):
        behind = incarnation == self.former and offset >= self.unread.first_offset
        return behind or self.former < incarnation < self.incarnation


@dataclass
class Target:
    """Records of the source on a cluster, as (incarnation, offset), and what the cluster knows of them."""

    has: set = field(default_factory=set)
    covered: dict = field(default_factory=dict)
    own: Position | None = None
    opened: int = 0
    told: list = field(default_factory=list)

    def take(self, number, born):
        if born > self.covered.get(number, (-1, -1)):
            self.covered[number] = born
            if number == SOURCE:
                self.has.add(born)


class World:
    """A source whose topic is made anew again and again, an edge to a target, and one by way of a relay."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.carried = self.random.choice([(SOURCE,), (SOURCE, ELSEWHERE)])
        self.logs = {1: []}
        self.checkpoints, self.seen_end = [], None
        self.target, self.relay = Target(), Target()
        self.upstream = 0
        self.copy(self.target)
        self.copy(self.relay)

    @property
    def now(self):
        return max(self.logs)

    def prefix(self, offset):
        seen = {}
        for at, elsewhere in enumerate(self.logs[self.now][:offset]):
            number, born = (SOURCE, (self.now, at)) if elsewhere is None else (ELSEWHERE, (1, elsewhere))
            seen[number] = max(born, seen.get(number, born))
        return seen

    def write(self):
        for _ in range(self.random.randint(1, 4)):
            elsewhere = self.random.random() < 0.3
            self.upstream += elsewhere
            self.logs[self.now].append(self.upstream if elsewhere else None)

    def make_anew(self):
        self.logs[self.now + 1] = []

    def look(self):
        """Another distributor reads on and leaves a checkpoint, or this one sees the end while it is paused."""
        end = len(self.logs[self.now])
        if self.random.random() < 0.5:
            at = self.random.randint(0, end)
            self.checkpoints.append(Checkpoint(at, self.now, self.prefix(at)))
        else:
            self.seen_end = (self.now, end)

    def open(self, target):
        incarnations = ((0, self.now),)
        fit = [each for each in self.checkpoints if each.seen]
        seen_end = self.seen_end if target is self.target else None
        found = unread(
            SOURCE,
            incarnations,
            self.carried,
            own=target.own,
            covered=target.covered,
            checkpoints=fit,
            seen_end=seen_end,
        )
        if found is not None:
            former = target.own.mark.incarnation if target.own else target.covered[SOURCE][0]
            behind = {(former, at) for at in range(found.first_offset, len(self.logs[former]))}
            assert found.at_least <= len(behind - target.has), "certain, and not so"
            target.told.append(Told(self.now, former, found))
        target.opened = self.now
        own = of_present_topic(target.own, incarnations)
        known = fit if own is None else [*fit, Checkpoint(own.offset, own.mark.incarnation, own.mark.seen)]
        return rescan.start(known, incarnations, self.carried, target.covered).offset

    def copy(self, target):
        at = self.open(target)
        end = self.random.randint(at, len(self.logs[self.now]))
        for offset in range(at, end):
            elsewhere = self.logs[self.now][offset]
            number, born = (SOURCE, (self.now, offset)) if elsewhere is None else (ELSEWHERE, (1, elsewhere))
            if number in self.carried:
                target.take(number, born)
        target.own = Position(end, Mark(self.now, 1, self.prefix(end), {}))
        if target is self.target and self.seen_end and self.seen_end <= (self.now, end):
            self.seen_end = None

    def step(self):
        name = self.random.choices(["write", "copy", "relay", "look", "anew", "forget"], [8, 6, 3, 3, 2, 1])[0]
        match name:
            case "write":
                self.write()
            case "copy":
                self.copy(self.target)
            case "relay":
                self.copy(self.relay)
                # All that the relay has comes to the target, which is told the same.
                for born in sorted(self.relay.has):
                    self.target.take(SOURCE, born)
                for number, born in self.relay.covered.items():
                    self.target.take(number, born)
                self.target.told += self.relay.told
                self.relay.told = []
            case "look":
                self.look()
            case "anew":
                self.make_anew()
            case "forget":
                # Brokers do that to positions that nobody renews. Who has nothing else either has lost nothing.
                self.target.own = None if SOURCE in self.target.covered else self.target.own


@pytest.mark.parametrize("block", range(4))
def test_every_record_that_is_lost_was_told_and_none_was_told_for_certain_that_is_not(block):
    losses = 0
    for seed in range(block * 500, block * 500 + 500):
        world = World(seed)
        for _ in range(world.random.randint(5, 40)):
            world.step()
        world.copy(world.target)
        for incarnation in range(1, world.now):
            for at, elsewhere in enumerate(world.logs[incarnation]):
                if elsewhere is None and (incarnation, at) not in world.target.has:
                    losses += 1
                    assert any(each.names(incarnation, at) for each in world.target.told), (seed, incarnation, at)
    assert losses > 500, "histories in which much is lost"
