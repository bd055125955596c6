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
from backend.replication_lab.effects import Watcher
from backend.replication_lab.frames import frame, told
from backend.replication_lab.isr import ids
from backend.replication_lab.messages import NOBODY, named_all, producer_name, sent_by
from backend.replication_lab.world import Action, World

_LATELY = 8
"""What was told within so many sentences is not told again."""
_NO_FRAME: Mapping[str, Any] = MappingProxyType({})
_ATTEMPT = re.compile(r" \(attempt \d+\)")


@dataclass(frozen=True)
class Moment:
    """A step that was taken."""

    step: int
    """From 1; 0 is the beginning."""
    text: str
    frame: Mapping[str, Any]
    """How things are after it; see `frames`. Empty where frames were not asked for."""


class Detail(Enum):
    """Which steps are told."""

    ALL = "all"
    CHANGES = "changes"
    """Faults, and what changed more than where fetches stand."""
    TURNS = "turns"
    """Faults, and what changed leaders, roles or replicas in sync, or cut a log back."""


def moments(
    start: World, steps: Iterable[Action], detail: Detail = Detail.ALL, *, with_frames: bool = False
) -> Iterator[Moment]:
    """The beginning, and then the steps that are to be told; without repetitions, if not all are."""
    world = start.copy()
    watcher = Watcher(world)
    yield Moment(0, beginning(world), frame(world) if with_frames else _NO_FRAME)
    lately: deque[str] = deque(maxlen=_LATELY)
    for number, action in enumerate(steps, 1):
        what = _words(world, action)
        perform(world, action)
        seen = watcher.look(world)
        is_fault = action[0] in _FAULTS
        if detail is Detail.TURNS and not (is_fault or seen.is_turn):
            continue
        text = f"{what}: {'; '.join(seen.effects)}" if seen.effects else what
        if detail is not Detail.ALL:
            told_lately = _ATTEMPT.sub("", text)
            if told_lately in lately or not (seen.effects or is_fault):
                continue
            lately.append(told_lately)
        yield Moment(number, text, frame(world) if with_frames else _NO_FRAME)


def beginning(world: World) -> str:
    """How the run begins, in words."""
    leader = world.leader()
    if leader is None:
        assigned = ids(frozenset(world.store.replicas))
        return f"{len(world.brokers)} brokers, none of which runs; an empty partition, assigned to {assigned}"
    replicas = [world.brokers[each] for each in world.store.isr]
    least = min(len(each.log) for each in replicas)
    said = f"Broker {leader.id} leads; in sync are {ids(world.store.isr)}"
    if least:
        committed = all(each.hw >= least for each in replicas)
        said += f", and all of them have {named_all(leader.log[:least])}"
        said += ", committed" if committed else f"; its HW is {leader.hw}"
    return said + (f"; it alone has {named_all(leader.log[least:])}" if len(leader.log) > least else "")


def _words(world: World, action: Action) -> str:
    """What is about to happen."""
    name, *whom = action
    return _WORDS[str(name)](world, *whom)


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
