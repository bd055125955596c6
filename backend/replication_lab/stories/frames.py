"""Frames: one moment of a run as plain data, as the player, REST and the command line use it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from backend.replication_lab.model.messages import (
    UNKNOWN,
    EpochRequest,
    EpochResponse,
    FetchRequest,
    FetchResponse,
    Message,
    ProduceRequest,
    Record,
    named,
    named_all,
)
from backend.replication_lab.model.state import Broker, Role
from backend.replication_lab.model.world import World

ROLES = {
    Role.NONE: "none",
    Role.FOLLOWER: "follower",
    Role.STANDING: "standing for election",
    Role.BECOMING: "becoming leader",
    Role.LEADER: "leader",
}


MOST_SHOWN = 30
"""Most records of a log, or of the committed records, in a frame: the newest ones."""


def frame(world: World) -> dict[str, Any]:
    """Return brokers with their logs, store, messages under way, and committed records. Offsets are end offsets.

    Long logs are shortened to the newest records; `log_start` and `committed_start` are the first offsets shown.
    """
    store, history = world.store, world.history
    committed_start = max(0, len(history.committed) - MOST_SHOWN)
    return {
        "brokers": [_broker(world, each) for each in world.brokers.values()],
        "store": {
            "leader": store.leader or None,
            "leader_epoch": store.leader_epoch if world.rules.has_epochs else None,
            "isr": sorted(store.isr),
            "elr": sorted(store.elr),
            "replicas": list(store.replicas),
            "reassigned": list(store.reassigned),
            "registered": sorted(store.registered),
        },
        "messages": [
            {"from": sender, "to": receiver, "what": describe_message(message)}
            for (sender, receiver), messages in sorted(world.channels.items())
            for message in messages
        ],
        "cut": [list(each) for each in sorted(world.cuts)],
        "committed": [named(each) for each in history.committed[committed_start:]],
        "committed_start": committed_start,
        "expected_losses": [{"offset": at, "record": named(record)} for at, record in history.expected_losses],
    }


def _broker(world: World, broker: Broker) -> dict[str, Any]:
    partition = broker.partition
    log_start = max(0, len(broker.log) - MOST_SHOWN)
    leads = broker.role >= Role.BECOMING
    return {
        "id": broker.id,
        "alive": broker.alive,
        "paused": broker.paused,
        "role": ROLES[broker.role],
        "follows": partition.leader or None if broker.role is Role.FOLLOWER else None,
        "epoch": partition.epoch if world.rules.has_epochs else None,
        "log": [_record(each) for each in broker.log[log_start:]],
        "log_start": log_start,
        "leo": len(broker.log),
        "hw": broker.hw,
        "flushed": broker.flushed,
        "checkpoint": broker.checkpoint,
        "isr": sorted(partition.isr) if leads else [],
        "cur": sorted(partition.cur) if leads else [],
        "waiting": [named(each.request) for each in partition.commit_q],
    }


@lru_cache(maxsize=4096)
def _record(record: Record) -> Mapping[str, Any]:
    """Return a record's entry; all frames share it: there may be hundreds, each with all brokers' logs."""
    return {"record": named(record), "epoch": record.epoch}


def describe_message(message: Message) -> str:
    """Describe a message."""
    if isinstance(message, FetchRequest):
        return f"fetch from offset {message.offset}"
    if isinstance(message, FetchResponse):
        if message.records is None:
            return "fetch refused"
        records = named_all(message.records) or "no records"
        return f"{records}; HW {message.hw}"
    if isinstance(message, EpochRequest):
        return f"end offset of epoch {message.asked}?"
    if isinstance(message, EpochResponse):
        return "request refused" if message.end == UNKNOWN else f"epoch {message.epoch} ends at {message.end}"
    if isinstance(message, ProduceRequest):
        return f"produce {named(message)}" + (f" (attempt {message.attempt})" if message.attempt > 1 else "")
    return f"record {message.number}: {message.error}" if message.error else "acknowledged"
