"""Sentences for what a step changed, found by comparing a world with its remembered state."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from backend.replication_lab.model.isr import ids
from backend.replication_lab.model.messages import NOBODY, ProduceResponse, named_all, producer_name, sent_by
from backend.replication_lab.model.state import Broker, Role
from backend.replication_lab.model.world import World
from backend.replication_lab.stories.frames import ROLES


@dataclass(frozen=True)
class Seen:
    """Changes found after one step."""

    effects: tuple[str, ...]
    is_turn: bool
    """Tells whether leader, roles or ISR changed, a log was truncated, or a loss is reported."""


class Watcher:
    """Observer of a world after each step; its cost depends on what changed, not on the length of logs."""

    def __init__(self, world: World) -> None:
        self._brokers = {id_: _Remembered(each) for id_, each in world.brokers.items()}
        self._remember(world)

    def _remember(self, world: World) -> None:
        store = world.store
        self._leader, self._isr, self._elr, self._replicas = store.leader, store.isr, store.elr, store.replicas
        self._under_way = {connection: len(some) for connection, some in world.channels.items()}
        self._lost = len(world.history.expected_losses)

    def look(self, world: World) -> Seen:
        """Return what changed since the last call."""
        effects: list[str] = []
        is_turn = False
        for id_, broker in world.brokers.items():
            is_turn |= self._brokers[id_].look(broker, effects)
        store = world.store
        if store.leader != self._leader:
            epoch = f" in epoch {store.leader_epoch}" if world.rules.has_epochs else ""
            leads = f"the store names broker {store.leader} leader{epoch}"
            effects.append(leads if store.leader != NOBODY else "the store has no leader")
        if store.isr != self._isr:
            effects.append(f"ISR {ids(self._isr)} → {ids(store.isr)}")
        if store.elr != self._elr:
            effects.append(f"ELR {ids(store.elr)}")
        if store.replicas != self._replicas:
            effects.append(f"the replicas are {ids(frozenset(store.replicas))}")
        is_turn |= (store.leader, store.isr, store.elr, store.replicas) != (
            self._leader, self._isr, self._elr, self._replicas,
        )  # fmt: skip
        effects += self._answers(world)
        if lost := world.history.expected_losses[self._lost :]:
            names = named_all([record for _, record in lost])
            effects.append(f"lost, as expected, since no in-sync replica was alive: {names}")
            is_turn = True
        self._remember(world)
        return Seen(tuple(effects), is_turn)

    def _answers(self, world: World) -> list[str]:
        effects = []
        for connection, messages in world.channels.items():
            sender, receiver = connection
            if receiver >= 0:
                continue
            for message in messages[self._under_way.get(connection, 0) :]:
                if isinstance(message, ProduceResponse):
                    record = f"{producer_name(sent_by(receiver))}{message.number}"
                    effects.append(
                        f"broker {sender} refuses {record}: {message.error}"
                        if message.error
                        else f"broker {sender} acknowledges {record} at offset {message.offset}"
                    )
        return effects


class _Remembered:
    """Last observed state of a broker."""

    def __init__(self, broker: Broker) -> None:
        self._role, self._hw, self._follows = broker.role, broker.hw, _leader_of(broker)
        self._log = broker.log.copy()

    def look(self, broker: Broker, effects: list[str]) -> bool:
        """Append what changed; return True if it is a turning point."""
        who = f"broker {broker.id}"
        role, follows = broker.role, _leader_of(broker)
        changed = role is not self._role
        if changed and broker.alive:
            effects.append(f"{who} is {ROLES[role]}" if role else f"{who} neither leads nor follows")
        if follows not in (NOBODY, self._follows):
            effects.append(f"{who} follows broker {follows}")
        cut_back = self._look_at_log(broker, who, effects)
        if broker.hw != self._hw and (broker.alive or broker.started):
            effects.append(f"HW of {who} {self._hw} → {broker.hw}")
        self._role, self._hw, self._follows = role, broker.hw, follows
        return changed or cut_back

    def _look_at_log(self, broker: Broker, who: str, effects: list[str]) -> bool:
        """Append changes of the log. Logs equal at an offset are equal before it: steps truncate and append."""
        log, known = broker.log, self._log
        if len(log) == len(known) and log[-1:] == known[-1:]:
            return False
        same = next(at for at in count(min(len(log), len(known)), -1) if at == 0 or log[at - 1] == known[at - 1])
        gone, come = known[same:], log[same:]
        if gone:
            effects.append(f"{who} truncates its log to offset {same} and loses {named_all(gone)}")
        if come:
            effects.append(f"{who} appends {named_all(come)} at offset {same}")
        known[same:] = come
        return bool(gone)


def _leader_of(broker: Broker) -> int:
    return broker.partition.leader if broker.role is Role.FOLLOWER else NOBODY
