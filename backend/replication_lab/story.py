"""A run in words: a sentence for each step, from what it was and what it changed."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

from backend.replication_lab.actions import perform
from backend.replication_lab.frames import ROLES, frame, told
from backend.replication_lab.isr import ids
from backend.replication_lab.messages import NOBODY, ProduceResponse, named, producer_name, sent_by
from backend.replication_lab.state import Broker
from backend.replication_lab.world import Action, World

_LATELY = 8
"""What was told within so many sentences is not told again."""
_ATTEMPT = re.compile(r" \(attempt \d+\)")


@dataclass(frozen=True)
class Moment:
    """A step that was taken."""

    step: int
    """From 1; 0 is the beginning."""
    text: str
    frame: Mapping[str, Any]
    """How things are after it; see `frames`."""


class Detail(Enum):
    """Which steps are told."""

    ALL = "all"
    CHANGES = "changes"
    """Faults, and what changed more than where fetches stand."""
    TURNS = "turns"
    """Faults, and what changed leaders, roles or replicas in sync, or cut a log back."""


def moments(start: World, steps: Iterable[Action], detail: Detail = Detail.ALL) -> Iterator[Moment]:
    """The beginning, and then the steps that are to be told; without repetitions, if not all are."""
    world = start.copy()
    yield Moment(0, beginning(world), frame(world))
    lately: deque[str] = deque(maxlen=_LATELY)
    for number, action in enumerate(steps, 1):
        before = world.copy()
        perform(world, action)
        if detail is Detail.TURNS and action[0] not in _FAULTS and not _turns(before, world):
            continue
        effects = _effects(before, world)
        text = _sentence(before, action, effects)
        if detail is not Detail.ALL:
            told_lately = _ATTEMPT.sub("", text)
            if told_lately in lately or not (effects or action[0] in _FAULTS or detail is Detail.TURNS):
                continue
            lately.append(told_lately)
        yield Moment(number, text, frame(world))


def _turns(before: World, after: World) -> bool:
    old, new = before.store, after.store
    return (
        (old.leader, old.isr, old.elr, old.replicas) != (new.leader, new.isr, new.elr, new.replicas)
        or before.history.expected_losses != after.history.expected_losses
        or any(
            broker.role is not before.brokers[id_].role or len(broker.log) < len(before.brokers[id_].log)
            for id_, broker in after.brokers.items()
        )
    )


def beginning(world: World) -> str:
    """How the run begins, in words."""
    leader = world.leader()
    if leader is None:
        assigned = ids(frozenset(world.store.replicas))
        return f"{len(world.brokers)} brokers, none of which runs; an empty partition, assigned to {assigned}"
    records = ", ".join(named(each) for each in leader.log) or "nothing yet"
    return (
        f"Broker {leader.id} leads; in sync are {ids(world.store.isr)}, and all of them have {records}, committed"
    )


def _sentence(before: World, action: Action, effects: list[str]) -> str:
    name, *whom = action
    what = _WORDS[str(name)](before, *whom)
    return f"{what}: {'; '.join(effects)}" if effects else what


def _delivered(before: World, sender: int, receiver: int) -> str:
    waiting = before.channels.get((sender, receiver))
    what = told(waiting[0]) if waiting else "nothing"
    if sender < 0:
        return f"Broker {receiver} gets a request of producer {_producer(sender)}: {what}"
    if receiver < 0:
        return f"Producer {_producer(receiver)} gets broker {sender}'s answer: {what}"
    return f"Broker {receiver} gets from broker {sender}: {what}"


def _producer(end: int) -> str:
    return producer_name(sent_by(end))


def _link(one: int, other: int) -> str:
    names = ["the store" if each == NOBODY else f"broker {each}" for each in (one, other)]
    return " and ".join(names)


_WORDS: Mapping[str, Callable[..., str]] = MappingProxyType(
    {
        "deliver": _delivered,
        "fetch": lambda _, broker: f"Broker {broker} sends its leader a request",
        "commit": lambda _, broker: f"Committer thread of broker {broker}",
        "late": lambda _, broker, *__: f"KeepInSyncTime is over at broker {broker}",
        "shrink": lambda _, broker, replica: f"KeepInSyncTime is over for replica {replica} at broker {broker}",
        "checkpoint": lambda _, broker: f"Broker {broker} flushes its log and its HW",
        "notice": lambda before, broker: f"Broker {broker} is told: {_notice(before, broker)}",
        "request": lambda before, broker: f"Broker {broker} gets a {_request(before, broker)}",
        "elect": lambda _, broker, *__: f"Broker {broker} stands for election",
        "lead": lambda _, broker: f"All that live have caught up with broker {broker}",
        "lead_anyway": lambda _, broker, *__: f"Broker {broker} waits for others no longer",
        "expire": lambda _, broker: f"The store has not heard of broker {broker}, whose session ends",
        "produce": lambda before, producer: f"Producer {producer_name(producer)} sends {_next(before, producer)}",
        "timeout": lambda before, producer, *_: (
            f"Producer {producer_name(producer)} got no answer in time and sends {_next(before, producer)} again"
        ),
        "begin_anew": lambda _, producer: (
            f"Producer {producer_name(producer)} is started anew, and leaves its record"
        ),
        "crash": lambda _, broker: f"Broker {broker} crashes",
        "power_loss": lambda _, broker: f"Broker {broker} loses power, and what was not flushed",
        "restart": lambda _, broker: f"Broker {broker} starts",
        "pause": lambda _, broker: f"Broker {broker} stands still",
        "resume": lambda _, broker: f"Broker {broker} goes on",
        "session_expiry": lambda _, broker: f"The store ends the session of broker {broker}, which lives",
        "cut": lambda _, one, other: f"Nothing comes through between {_link(one, other)}",
        "heal": lambda _, one, other: f"The connection between {_link(one, other)} is back",
        "slow": lambda _, broker: f"Broker {broker} gets slow at fetching",
        "slow_disk": lambda _, broker: f"The disk of broker {broker} gets slow",
        "fast": lambda _, broker: f"Broker {broker} is as fast as others again",
        "reassign": lambda _, *replicas: f"An administrator moves the partition to {ids(frozenset(replicas))}",
        "delete_topic": lambda _: "An administrator deletes the topic",
    }
)

_FAULTS = frozenset(
    ("crash", "power_loss", "restart", "pause", "resume", "session_expiry", "cut", "heal", "slow", "slow_disk",
     "fast", "reassign", "delete_topic", "begin_anew", "timeout", "expire", "late", "shrink"),
)  # fmt: skip


def _notice(before: World, broker: int) -> str:
    notices = before.brokers[broker].notices
    return {
        "startup": "the store is there",
        "leader_change": "the leader's node changed",
        "session_lost": "its session is lost",
        "replica_change": "the topic changed",
        "partition_reassigned": "replicas are to move",
    }.get(notices[0] if notices else "", "nothing")


def _request(before: World, broker: int) -> str:
    waiting = before.store.requests.get(broker)
    return str(waiting[0]) if waiting else "request"


def _next(before: World, producer: int) -> str:
    return f"{producer_name(producer)}{before.producers[producer].number}"


def _effects(before: World, after: World) -> list[str]:
    """What changed for those who read the story: roles, logs, HW, the store, answers."""
    effects: list[str] = []
    for id_, broker in after.brokers.items():
        effects += _of_broker(before.brokers[id_], broker)
    old, new = before.store, after.store
    if old.leader != new.leader:
        epoch = f" in epoch {new.leader_epoch}" if after.rules.has_epochs else ""
        effects.append(f"leader in the store: {new.leader}{epoch}" if new.leader else "the store has no leader")
    if old.isr != new.isr:
        effects.append(f"ISR {ids(old.isr)} → {ids(new.isr)}")
    if old.elr != new.elr:
        effects.append(f"eligible to lead beside it: {ids(new.elr)}")
    if old.replicas != new.replicas:
        effects.append(f"the replicas are {ids(frozenset(new.replicas))}")
    effects += _answers(before, after)
    lost = after.history.expected_losses[len(before.history.expected_losses) :]
    if lost:
        names = ", ".join(named(record) for _, record in lost)
        effects.append(f"lost, as has to be expected, since no in-sync replica lived: {names}")
    return effects


def _of_broker(before: Broker, after: Broker) -> list[str]:
    effects: list[str] = []
    who = f"broker {after.id}"
    if before.role is not after.role and after.alive:
        effects.append(f"{who} is {ROLES[after.role]}" if after.role else f"{who} neither leads nor follows")
    same = 0
    while same < min(len(before.log), len(after.log)) and before.log[same] == after.log[same]:
        same += 1
    if same < len(before.log):
        gone = ", ".join(named(each) for each in before.log[same:])
        effects.append(f"{who} cuts its log back to {same}: {gone} is gone there")
    if same < len(after.log):
        come = ", ".join(named(each) for each in after.log[same:])
        effects.append(f"{who} appends {come} at offset {same}")
    if before.hw != after.hw and (after.alive or after.started):
        effects.append(f"HW of {who} {before.hw} → {after.hw}")
    return effects


def _answers(before: World, after: World) -> list[str]:
    effects = []
    for (sender, receiver), messages in after.channels.items():
        for message in messages[len(before.channels.get((sender, receiver), ())) :]:
            if isinstance(message, ProduceResponse):
                record = f"{_producer(receiver)}{message.number}"
                effects.append(
                    f"broker {sender} refuses {record}: {message.error}"
                    if message.error
                    else f"broker {sender} acknowledges {record} at offset {message.offset}"
                )
    return effects
