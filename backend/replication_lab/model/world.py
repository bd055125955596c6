"""Complete state of a run at one moment: brokers, store, network, producers, and committed records."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from backend.replication_lab.model.configuration import Configuration
from backend.replication_lab.model.history import History
from backend.replication_lab.model.messages import NOBODY, UNKNOWN, Message
from backend.replication_lab.model.rules import Rules
from backend.replication_lab.model.state import Broker, Producer, Role
from backend.replication_lab.model.store import Request, Store

Action: TypeAlias = tuple[str | int | tuple[int, ...], ...]
"""One step: the action's name, then its arguments."""


def _nobody_waits(_action: Action, _delay: float) -> None:
    """Ignore timers: without a clock, actions are chosen from the state."""


class World:
    """State of the model, in which each message and each end of a wait is a step.

    With `direct`, an answer comes in the step that sends the request; with `prompt`, elections and truncation
    requests end in the step that begins them. Both leave out orders of steps, so that a search gets further.
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
        """Tells whether a wait ends only if something delays what it waits for; see `timeouts`."""
        self.now = 0.0
        """Simulated milliseconds."""
        self.wake: Callable[[Action, float], None] = _nobody_waits
        """Schedules an action after about this many milliseconds."""
        self.dirty: list[int] = []
        self.brokers = {each: Broker(each, self.dirty) for each in range(1, configuration.brokers + 1)}
        self.store = Store(configuration.assigned)
        self.producers = [Producer(each, configuration.records) for each in range(configuration.producers)]
        self.channels: dict[tuple[int, int], tuple[Message, ...]] = {}
        """Messages under way by (sender, receiver), in the order in which they were sent. Producers have ids below
        0.
        """
        self.cuts: frozenset[tuple[int, int]] = frozenset()
        """Pairs with a cut connection, the smaller id first; NOBODY is the store."""
        self.history = History()

    def copy(self) -> World:
        """Return another world in the same state; it has no clock."""
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
        """Return a key that distinguishes two states; times do not count."""
        return (
            tuple([each.key(self.store.isr_version) for each in self.brokers.values()]),
            self.store.key(),
            tuple([each.key() for each in self.producers]),
            tuple(sorted(self.channels.items())) if self.channels else (),
            self.cuts,
            self.history.key(),
        )

    def is_cut(self, one: int, other: int) -> bool:
        """Tell whether the connection between two ends is cut."""
        return bool(self.cuts) and ((one, other) if one < other else (other, one)) in self.cuts

    def sees_store(self, broker: Broker) -> bool:
        """Tell whether the broker can read and write the store."""
        return not (self.cuts and self.is_cut(NOBODY, broker.id))

    def leader(self) -> Broker | None:
        """Return the broker that the store names leader, if it serves."""
        if self.store.leader == NOBODY:
            return None
        broker = self.brokers[self.store.leader]
        return broker if broker.alive and broker.role is Role.LEADER else None

    def leader_changed(self, by: int = NOBODY) -> None:
        """Call the leader-change listeners of all brokers; several changes are one call (a watch)."""
        for broker in self.brokers.values():
            if broker.alive and broker.started and broker.id != by:
                self.notify(broker, "leader_change")

    def notify(self, broker: Broker, listener: str) -> None:
        """Schedule a call of one of a broker's listeners, if it is alive."""
        if broker.alive and listener not in broker.notices:
            broker.notices = (*broker.notices, listener)
            self.wake(("notice", broker.id), self.configuration.times.network)

    def request(self, broker: int, request: Request) -> None:
        """Append a state-change request to a broker's path; its listener will be called."""
        self.store.request(broker, request)
        self.wake(("request", broker), self.configuration.times.network)

    def find_leader(self, producer: Producer) -> None:
        """Let a producer look up the leader in the store."""
        producer.leader = self.store.leader if self.store.leader != NOBODY else UNKNOWN
