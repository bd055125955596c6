"""A named scenario: the document's statement, the defect, and the timing of its faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from backend.replication_lab.model.configuration import Configuration
from backend.replication_lab.model.history import Invariant
from backend.replication_lab.model.rules import FAITHFUL, MODES, Rules
from backend.replication_lab.model.start_states import established
from backend.replication_lab.model.state import Broker, Role
from backend.replication_lab.model.world import Action, World

When = Callable[[World], bool]


@dataclass(frozen=True)
class Cue:
    """Actions taken as soon as a condition holds: faults, or steps of threads that can happen at any time."""

    when: When
    steps: tuple[Action, ...]
    at_latest: float = 2_000
    """Milliseconds after the previous cue; then the actions are taken anyway, since with the fixes `when` may
    never hold."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A defect of the documents. Cues come one after another; the seed decides everything else."""

    name: str
    title: str
    document: str
    """Document and section, with a summary of what it says."""
    violated: Invariant
    """Invariant that is violated in faithful mode."""
    configuration: Configuration
    cues: tuple[Cue, ...]
    readings: Rules = FAITHFUL
    """Reading of the documents that has the defect."""
    leader: int = 1
    isr: frozenset[int] | None = None
    starts_empty: bool = False
    """Tells whether all brokers start from nothing; otherwise there is a leader, and two records are committed."""

    def rules(self, mode: str) -> Rules:
        """Return the rules in a mode: fixes are applied on top of the reading."""
        return replace(self.readings, mode=mode) if mode == FAITHFUL.mode else MODES[mode]

    def world(self, mode: str) -> World:
        """Return the start state."""
        if self.starts_empty:
            return World(self.configuration, self.rules(mode))
        return established(self.configuration, self.rules(mode), records=2, leader=self.leader, isr=self.isr)


def at_once(_world: World) -> bool:
    """Return True: the condition always holds."""
    return True


def all_of(*conditions: When) -> When:
    """Return a condition that holds if all of these do."""
    return lambda world: all(each(world) for each in conditions)


def has(broker: int, records: int) -> When:
    """Return a condition: the broker's log has at least `records` records."""
    return lambda world: len(world.brokers[broker].log) >= records


def has_just(broker: int, records: int) -> When:
    """Return a condition: the broker's log has exactly `records` records."""
    return lambda world: len(world.brokers[broker].log) == records


def knows_committed(broker: int, records: int) -> When:
    """Return a condition: the broker's HW is at least `records`."""
    return lambda world: world.brokers[broker].hw >= records


def leads(broker: int) -> When:
    """Return a condition: the broker is leader and serves reads and writes."""
    return lambda world: world.brokers[broker].role is Role.LEADER


def is_chosen(broker: int) -> When:
    """Return a condition: the broker is the leader in the store, whether it serves already or not."""
    return lambda world: world.store.leader == broker


def follows(broker: int, leader: int) -> When:
    """Return a condition: the broker follows this leader and has truncated its log for it."""
    return lambda world: _follows(world.brokers[broker], leader)


def is_without_session(broker: int) -> When:
    """Return a condition: the store has no session of the broker."""
    return lambda world: broker not in world.store.registered


def _follows(broker: Broker, leader: int) -> bool:
    return broker.alive and broker.role is Role.FOLLOWER and broker.partition.leader == leader
