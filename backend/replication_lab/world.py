"""The whole of a run at one moment: brokers, store, network, producers, and what was committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from backend.replication_lab.configuration import Configuration
from backend.replication_lab.history import History
from backend.replication_lab.messages import NOBODY, UNKNOWN, Message
from backend.replication_lab.rules import Rules
from backend.replication_lab.state import Broker, Producer, Role
from backend.replication_lab.store import Request, Store

Action: TypeAlias = tuple[str | int | tuple[int, ...], ...]
"""One step: its name, then whom it concerns."""


def _nobody_waits(_action: Action, _delay: float) -> None:
    """Without a clock, whoever chooses actions looks at the state for those that may happen."""


class World:
    """A state of the model, in which each message and each end of a wait is a step.

    With `direct`, an answer comes in the step that asks; with `prompt`, elections and the questions of
    truncation are over in the step that begins them. Both leave out orders of steps, so that a search gets
    farther.
    """

    __slots__ = (
        "brokers", "channels", "configuration", "cuts", "direct", "dirty", "history", "now", "patient",
        "producers", "prompt", "rules", "store", "timed", "wake",
    )  # fmt: skip

    def __init__(
        self, configuration: Configuration, rules: Rules, *, direct: bool = False, prompt: bool = False
    ) -> None:
        self.configuration = configuration
        self.rules = rules
        self.direct = direct
        self.prompt = prompt
        self.timed = False
        self.patient = False
        """Waits end only where something holds up what is waited for; see `patience`."""
        self.now = 0.0
        """Simulated milliseconds."""
        self.wake: Callable[[Action, float], None] = _nobody_waits
        """Something is to happen after so many milliseconds."""
        self.dirty: list[int] = []
        self.brokers = {each: Broker(each, self.dirty) for each in range(1, configuration.brokers + 1)}
        self.store = Store(configuration.assigned)
        self.producers = [Producer(each, configuration.records) for each in range(configuration.producers)]
        self.channels: dict[tuple[int, int], tuple[Message, ...]] = {}
        """Messages under way from one to another, in the order in which they were sent. Producers have ids below
        0.
        """
        self.cuts: frozenset[tuple[int, int]] = frozenset()
        """Pairs between which nothing comes through, the smaller id first; NOBODY is the store."""
        self.history = History()

    def copy(self) -> World:
        """Another world in the same state; it has no clock."""
        twin = World.__new__(World)
        twin.configuration, twin.rules, twin.direct, twin.timed = (
            self.configuration,
            self.rules,
            self.direct,
            False,
        )
        twin.prompt, twin.now, twin.wake, twin.dirty = self.prompt, self.now, _nobody_waits, []
        twin.patient = self.patient
        twin.brokers = {id_: broker.copy(twin.dirty) for id_, broker in self.brokers.items()}
        twin.store, twin.producers = self.store.copy(), [each.copy() for each in self.producers]
        twin.channels, twin.cuts, twin.history = dict(self.channels), self.cuts, self.history.copy()
        return twin

    def key(self) -> tuple[object, ...]:
        """What tells two states apart; times do not."""
        return (
            tuple([each.key(self.store.isr_version) for each in self.brokers.values()]),
            self.store.key(),
            tuple([each.key() for each in self.producers]),
            tuple(sorted(self.channels.items())) if self.channels else (),
            self.cuts,
            self.history.key(),
        )

    def is_cut(self, one: int, other: int) -> bool:
        """Nothing comes through between them."""
        return bool(self.cuts) and ((one, other) if one < other else (other, one)) in self.cuts

    def sees_store(self, broker: Broker) -> bool:
        """The broker can read and write the store."""
        return not (self.cuts and self.is_cut(NOBODY, broker.id))

    def leader(self) -> Broker | None:
        """The broker that the store calls the leader, if it serves."""
        if self.store.leader == NOBODY:
            return None
        broker = self.brokers[self.store.leader]
        return broker if broker.alive and broker.role is Role.LEADER else None

    def believers(self) -> list[Broker]:
        """All that take themselves for the leader and serve."""
        return [each for each in self.brokers.values() if each.alive and each.role is Role.LEADER]

    def leader_changed(self, by: int = NOBODY) -> None:
        """Call the leader-change listener of all that have registered one; several changes are one call (a
        watch).
        """
        for broker in self.brokers.values():
            if broker.alive and broker.started and broker.id != by:
                self.notify(broker, "leader_change")

    def notify(self, broker: Broker, listener: str) -> None:
        """A listener of this broker is to be called, if it lives."""
        if broker.alive and listener not in broker.notices:
            broker.notices = (*broker.notices, listener)
            self.wake(("notice", broker.id), self.configuration.times.network)

    def request(self, broker: int, request: Request) -> None:
        """Put a state-change request into a broker's path; its listener will be called."""
        self.store.request(broker, request)
        self.wake(("request", broker), self.configuration.times.network)

    def find_leader(self, producer: Producer) -> None:
        """The client asks the store where the leader is."""
        producer.leader = self.store.leader if self.store.leader != NOBODY else UNKNOWN
