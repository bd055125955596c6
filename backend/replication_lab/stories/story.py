"""Stories: a sentence for each step of a run, from its action and its effects."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

from backend.replication_lab.model.actions import perform
from backend.replication_lab.model.isr import ids
from backend.replication_lab.model.messages import NOBODY, named_all, producer_name, sent_by
from backend.replication_lab.model.world import Action, World
from backend.replication_lab.stories.frames import describe_message, frame
from backend.replication_lab.stories.step_effects import Watcher

_RECENT = 8
"""Number of recent sentences that are not repeated."""
_NO_FRAME: Mapping[str, Any] = MappingProxyType({})
_ATTEMPT = re.compile(r" \(attempt \d+\)")


@dataclass(frozen=True)
class Moment:
    """A reported step."""

    step: int
    """Number of the step, from 1; 0 is the beginning."""
    text: str
    frame: Mapping[str, Any]
    """State after the step; see `frames`. Empty if no frames were requested."""


class Detail(Enum):
    """Selection of the steps to report."""

    ALL = "all"
    CHANGES = "changes"
    """Faults, and steps that changed more than fetch positions."""
    TURNS = "turns"
    """Faults, and steps that changed leader, roles or ISR, or truncated a log."""


def moments(
    start: World, steps: Iterable[Action], detail: Detail = Detail.ALL, *, with_frames: bool = False
) -> Iterator[Moment]:
    """Yield the beginning and then the selected steps; repetitions are left out unless all steps are reported."""
    world = start.copy()
    watcher = Watcher(world)
    yield Moment(0, beginning(world), frame(world) if with_frames else _NO_FRAME)
    recent: deque[str] = deque(maxlen=_RECENT)
    for number, action in enumerate(steps, 1):
        what = _describe(world, action)
        perform(world, action)
        seen = watcher.look(world)
        is_fault = action[0] in _FAULTS
        if detail is Detail.TURNS and not (is_fault or seen.is_turn):
            continue
        text = f"{what}: {'; '.join(seen.effects)}" if seen.effects else what
        if detail is not Detail.ALL:
            without_attempt = _ATTEMPT.sub("", text)
            if without_attempt in recent or not (seen.effects or is_fault):
                continue
            recent.append(without_attempt)
        yield Moment(number, text, frame(world) if with_frames else _NO_FRAME)


def beginning(world: World) -> str:
    """Describe the beginning of the run."""
    leader = world.leader()
    if leader is None:
        assigned = ids(frozenset(world.store.replicas))
        return f"{len(world.brokers)} brokers, all stopped; an empty partition, assigned to {assigned}"
    replicas = [world.brokers[each] for each in world.store.isr]
    least = min(len(each.log) for each in replicas)
    text = f"Broker {leader.id} leads; ISR {ids(world.store.isr)}"
    if least:
        committed = all(each.hw >= least for each in replicas)
        text += f"; all of them have {named_all(leader.log[:least])}"
        text += ", committed" if committed else f"; its HW is {leader.hw}"
    return text + (f"; only the leader has {named_all(leader.log[least:])}" if len(leader.log) > least else "")


def _describe(world: World, action: Action) -> str:
    """Describe the action that is about to happen."""
    name, *whom = action
    return _SENTENCES[str(name)](world, *whom)


def _delivered(before: World, sender: int, receiver: int) -> str:
    waiting = before.channels.get((sender, receiver))
    what = describe_message(waiting[0]) if waiting else "nothing"
    if sender < 0:
        return f"Broker {receiver} receives from producer {_producer(sender)}: {what}"
    if receiver < 0:
        return f"Producer {_producer(receiver)} receives from broker {sender}: {what}"
    return f"Broker {receiver} receives from broker {sender}: {what}"


def _producer(end: int) -> str:
    return producer_name(sent_by(end))


def _link(one: int, other: int) -> str:
    names = ["the store" if each == NOBODY else f"broker {each}" for each in (one, other)]
    return " and ".join(names)


_SENTENCES: Mapping[str, Callable[..., str]] = MappingProxyType(
    {
        "deliver": _delivered,
        "fetch": lambda _, broker: f"Broker {broker} sends a request to its leader",
        "commit": lambda _, broker: f"The committer thread of broker {broker} runs",
        "late": lambda _, broker, *__: f"KeepInSyncTime passes at broker {broker}",
        "shrink": lambda _, broker, replica: f"KeepInSyncTime passes for replica {replica} at broker {broker}",
        "checkpoint": lambda _, broker: f"Broker {broker} flushes its log and its HW",
        "notice": lambda before, broker: f"Broker {broker} is notified: {_notice(before, broker)}",
        "request": lambda before, broker: f"Broker {broker} receives a {_request(before, broker)}",
        "elect": lambda _, broker, *__: f"The election wait of broker {broker} ends",
        "lead": lambda _, broker: f"All live replicas have caught up with broker {broker}",
        "lead_anyway": lambda _, broker, *__: f"Broker {broker} stops waiting for other replicas",
        "expire": lambda _, broker: f"The session of broker {broker} expires",
        "produce": lambda before, producer: f"Producer {producer_name(producer)} sends {_next(before, producer)}",
        "timeout": lambda before, producer, *_: (
            f"Producer {producer_name(producer)} times out and resends {_next(before, producer)}"
        ),
        "begin_anew": lambda _, producer: f"Producer {producer_name(producer)} restarts and abandons its record",
        "crash": lambda _, broker: f"Broker {broker} crashes",
        "power_loss": lambda _, broker: f"Broker {broker} loses power and its unflushed records",
        "restart": lambda _, broker: f"Broker {broker} starts",
        "pause": lambda _, broker: f"Broker {broker} is paused",
        "resume": lambda _, broker: f"Broker {broker} resumes",
        "session_expiry": lambda _, broker: f"The session of broker {broker} expires although it is alive",
        "cut": lambda _, one, other: f"The connection between {_link(one, other)} is cut",
        "heal": lambda _, one, other: f"The connection between {_link(one, other)} is restored",
        "slow": lambda _, broker: f"Broker {broker} becomes slow at fetching",
        "slow_disk": lambda _, broker: f"The disk of broker {broker} becomes slow",
        "fast": lambda _, broker: f"Broker {broker} is back to normal speed",
        "reassign": lambda _, *replicas: f"An administrator reassigns the partition to {ids(frozenset(replicas))}",
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
        "startup": "the store is reachable",
        "leader_change": "the leader's node changed",
        "session_lost": "its session is lost",
        "replica_change": "the topic changed",
        "partition_reassigned": "replicas are reassigned",
    }.get(notices[0] if notices else "", "nothing")


def _request(before: World, broker: int) -> str:
    waiting = before.store.requests.get(broker)
    return str(waiting[0]) if waiting else "request"


def _next(before: World, producer: int) -> str:
    return f"{producer_name(producer)}{before.producers[producer].number}"
