"""A named scenario: what the documents say, what goes wrong, and when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from backend.replication_lab.beginnings import established
from backend.replication_lab.configuration import Configuration
from backend.replication_lab.history import Invariant
from backend.replication_lab.rules import FAITHFUL, MODES, Rules
from backend.replication_lab.state import Broker, Role
from backend.replication_lab.world import Action, World

When = Callable[[World], bool]


@dataclass(frozen=True)
class Cue:
    """Steps that are taken as soon as something is so: faults, or a thread's step that can come at any time."""

    when: When
    steps: tuple[Action, ...]
    at_latest: float = 2_000
    """Milliseconds after the cue before; then they are taken anyway, since with the mends it may never be so."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A defect of the documents. Cues come one after another; everything else the seed decides."""

    name: str
    title: str
    document: str
    """Which document and section it is about, and what that says."""
    violated: Invariant
    """In faithful mode."""
    configuration: Configuration
    cues: tuple[Cue, ...]
    readings: Rules = FAITHFUL
    """The reading of the documents that has the defect."""
    leader: int = 1
    isr: frozenset[int] | None = None
    starts_empty: bool = False
    """All brokers are started anew; otherwise the partition is led and replicated, with two records committed."""

    def rules(self, mode: str) -> Rules:
        """By which it runs in a mode: mends come on top of the reading."""
        return replace(self.readings, mode=mode) if mode == FAITHFUL.mode else MODES[mode]

    def world(self, mode: str) -> World:
        """How it begins."""
        if self.starts_empty:
            return World(self.configuration, self.rules(mode))
        return established(self.configuration, self.rules(mode), records=2, leader=self.leader, isr=self.isr)


def at_once(_world: World) -> bool:
    """Now."""
    return True


def everybody(*conditions: When) -> When:
    """All of these at once."""
    return lambda world: all(each(world) for each in conditions)


def has(broker: int, records: int) -> When:
    """The broker's log has so many records, or more."""
    return lambda world: len(world.brokers[broker].log) >= records


def has_just(broker: int, records: int) -> When:
    """The broker's log has just so many."""
    return lambda world: len(world.brokers[broker].log) == records


def knows_committed(broker: int, records: int) -> When:
    """The broker's HW is there, or farther."""
    return lambda world: world.brokers[broker].hw >= records


def leads(broker: int) -> When:
    """It serves reads and writes."""
    return lambda world: world.brokers[broker].role is Role.LEADER


def is_chosen(broker: int) -> When:
    """It is the leader in the store, whether it serves already or not."""
    return lambda world: world.store.leader == broker


def follows(broker: int, leader: int) -> When:
    """It has heard of this leader, and cut its log back."""
    return lambda world: _follows(world.brokers[broker], leader)


def is_without_session(broker: int) -> When:
    """The store has forgotten it."""
    return lambda world: broker not in world.store.registered


def _follows(broker: Broker, leader: int) -> bool:
    return broker.alive and broker.role is Role.FOLLOWER and broker.partition.leader == leader
