"""Throttles of moved replicas (KIP-73), set without overwriting throttles of others.

Kafka keeps a throttle in two places: a rate at each broker, and at each topic the list of throttled replicas.
Both may be an operator's. Therefore the present values are read first, and the caller stores them, in a
`Throttle`, before anything is set: a process that continues after a crash removes exactly what was ours.

A lower rate of the broker's own stays; a higher one is replaced by ours and restored afterwards. A list of all
replicas (`*`) stays; to any other list our entries are added, and removed again one by one. A value that differs
from the one that we set belongs to someone else, and stays. One case cannot be told apart: an entry that someone
adds while our identical entry is there already.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from backend.kafka.admin.configs import (
    APPEND,
    DELETE,
    OF_THE_BROKER,
    OF_THE_TOPIC,
    SET,
    SUBTRACT,
    Change,
    broker_configs,
    change_brokers,
    change_topics,
    topic_configs,
)
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.base.requests import Place, Send, SendEach

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
"""Bytes a second that a broker sends, and receives, for listed replicas that are not in sync."""
LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
"""Topic settings: `partition:broker`, or `*` for all."""
ALL = "*"
_AGAIN_SECONDS = 0.05
_NOT_YET = "it does not show what was set"
_STILL = "it still shows what was set"

Sides = tuple[Iterable[int], Iterable[int]]
"""(Brokers that a partition may be copied from, brokers that it is copied to)."""
Standing = tuple[int | None, int | None]
"""A broker's own rates, in the order of `RATES`."""
Listed = tuple[frozenset[str], frozenset[str]]
"""A topic's entries, in the order of `LISTS`."""
_NOTHING: Listed = (frozenset(), frozenset())
OwnLists = tuple[frozenset[str] | None, frozenset[str] | None]
"""A topic's own entries, in the order of `LISTS`; None where the topic has no such list."""


@dataclass(frozen=True, kw_only=True)
class Throttle:
    """The throttles that Treeline sets on one cluster, with the values found there; stored until removed."""

    rates: tuple[int, ...]
    """Bytes a second. The last rate is current; earlier ones may still be set on a broker that was down."""
    brokers: Mapping[int, Standing]
    """Brokers that get the rate -> the rates of their own that they had."""
    topics: Mapping[str, Listed]
    """Entries that are ours, without those that were there before."""
    unknown: Mapping[int, str] = field(default_factory=dict)
    """Brokers that did not report their rates, with the reason; nothing is set there."""

    def at(self, rate_bytes_per_second: int) -> Throttle:
        """Return the same throttle with another rate."""
        others = (each for each in self.rates if each != rate_bytes_per_second)
        return replace(self, rates=(*others, rate_bytes_per_second))

    def document(self) -> dict[str, Any]:
        """Return the JSON form that `Throttle.read` parses."""
        return {
            "rates": list(self.rates),
            "brokers": {str(broker): list(rates) for broker, rates in sorted(self.brokers.items())},
            "topics": {
                topic: [_text(entries) for entries in lists] for topic, lists in sorted(self.topics.items())
            },
            "unknown": {str(broker): why for broker, why in sorted(self.unknown.items())},
        }

    @staticmethod
    def read(document: Mapping[str, Any]) -> Throttle:
        """Parse the result of `document`."""
        return Throttle(
            rates=tuple(document["rates"]),
            brokers={int(broker): (rates[0], rates[1]) for broker, rates in document["brokers"].items()},
            topics={
                topic: (_entries(lists[0]), _entries(lists[1])) for topic, lists in document["topics"].items()
            },
            unknown={int(broker): why for broker, why in document["unknown"].items()},
        )

    def rates_of(self, broker: int, rate: int) -> Standing:
        """Return the rates that a broker is given: never more than its own."""
        had = self.brokers[broker]
        leads, follows = (rate if each is None else min(rate, each) for each in had)
        return leads, follows


def intended(
    send: Send, send_each: SendEach, rate: int, replicas: Mapping[Place, Sides], earlier: Throttle | None = None
) -> Throttle:
    """Return the throttle for these partitions, in addition to an earlier one; nothing is set yet.

    Raises KafkaCallFailed; single brokers that do not answer are in `unknown`.
    """
    brokers = {broker for sides in replicas.values() for side in sides for broker in side}
    known = dict(earlier.brokers) if earlier else {}
    unknown: dict[int, str] = {}
    for broker, found in _rates(send_each, brokers - known.keys()).items():
        if isinstance(found, KafkaCallFailed):
            unknown[broker] = found.reason
        else:
            known[broker] = found
    ours = dict(earlier.topics) if earlier else {}
    wanted: dict[str, tuple[set[str], set[str]]] = {}
    for (topic, number), sides in replicas.items():
        for listed, side in zip(wanted.setdefault(topic, (set(), set())), sides, strict=True):
            listed.update(f"{number}:{broker}" for broker in side)
    seen = _lists(send, sorted(wanted))
    for topic, both in wanted.items():
        # Also for topics that may not be read: setting the list reports whether they may be changed.
        ours[topic] = _added(both, ours.get(topic, _NOTHING), seen.get(topic, _NOTHING))
    throttle = Throttle(rates=earlier.rates if earlier else (), brokers=known, topics=ours, unknown=unknown)
    return throttle.at(rate)


def _added(wanted: tuple[set[str], set[str]], ours: Listed, there: Listed) -> Listed:
    """Return the entries that are ours once the wanted ones are set: not those that others had set before."""
    leads, follows = (
        owned if ALL in listed else (entries - listed) | owned
        for entries, owned, listed in zip(wanted, ours, there, strict=True)
    )
    return frozenset(leads), frozenset(follows)


def apply(send: Send, send_each: SendEach, throttle: Throttle, seconds: float) -> dict[str, str]:
    """Set a throttle and wait until it is visible; return what was refused (`broker 3`, `topic a`), with reasons.

    Raises KafkaCallFailed.
    """
    rate = throttle.rates[-1]
    given = {broker: throttle.rates_of(broker, rate) for broker in throttle.brokers}
    refused = {f"broker {broker}": why for broker, why in throttle.unknown.items()}
    refused |= change_brokers(
        send_each,
        {
            broker: [(key, SET, str(each)) for key, each in zip(RATES, rates, strict=True)]
            for broker, rates in given.items()
        },
    )
    refused |= change_topics(
        send,
        {
            topic: [(key, APPEND, _text(entries)) for key, entries in zip(LISTS, both, strict=True) if entries]
            for topic, both in throttle.topics.items()
        },
    )

    def unseen() -> dict[str, str]:
        rates = _rates(send_each, [broker for broker in given if f"broker {broker}" not in refused])
        refused.update(_silent(rates))
        lists = _lists(send, [topic for topic in throttle.topics if f"topic {topic}" not in refused])
        return {
            f"broker {broker}": _NOT_YET
            for broker, found in rates.items()
            if not isinstance(found, KafkaCallFailed) and found != given[broker]
        } | {
            f"topic {topic}": _NOT_YET
            for topic, there in lists.items()
            if not all(ours <= listed for ours, listed in zip(throttle.topics[topic], there, strict=True))
        }

    return refused | _until_none(unseen, seconds)


def take_away(send: Send, send_each: SendEach, throttle: Throttle, seconds: float) -> dict[str, str]:
    """Remove a throttle where it is still as it was set, and wait until it is gone.

    Return what failed (`broker 3`), with reasons; retry it. Removing twice is harmless. Raises KafkaCallFailed.
    """
    refused: dict[str, str] = {}

    def left() -> dict[str, str]:
        # Lists first: a rate without a list throttles nothing.
        lists = list_changes(throttle, _own_lists(send, sorted(throttle.topics)))
        refused.update(change_topics(send, lists))
        found = _rates(send_each, throttle.brokers)
        refused.update(_silent(found))
        changes = _rate_changes(throttle, found)
        refused.update(change_brokers(send_each, changes))
        changed = [f"topic {topic}" for topic in lists] + [f"broker {broker}" for broker in changes]
        return {each: _STILL for each in changed if each not in refused}

    return _until_none(left, seconds) | refused


def _silent(seen: Mapping[int, Standing | KafkaCallFailed]) -> dict[str, str]:
    return {f"broker {broker}": each.reason for broker, each in seen.items() if isinstance(each, KafkaCallFailed)}


def list_changes(throttle: Throttle, seen: Mapping[str, OwnLists]) -> dict[str, list[Change]]:
    """Return the changes, by topic, that remove our entries from the lists as they were read.

    A list is deleted only once it is seen to be empty. Deleting one that shows only our entries would also delete
    an entry that someone has just added and that the queried broker does not know yet.
    """
    found: dict[str, list[Change]] = {}
    for topic, there in seen.items():
        for key, ours, listed in zip(LISTS, throttle.topics[topic], there, strict=True):
            if not ours or listed is None:
                continue
            if ours & listed:
                found.setdefault(topic, []).append((key, SUBTRACT, _text(ours & listed)))
            elif not listed:
                # An empty list would remain in the topic's configuration.
                found.setdefault(topic, []).append((key, DELETE, None))
    return found


def _rate_changes(throttle: Throttle, seen: Mapping[int, Standing | KafkaCallFailed]) -> dict[int, list[Change]]:
    found: dict[int, list[Change]] = {}
    for broker, has in seen.items():
        if isinstance(has, KafkaCallFailed):
            continue
        given, had = [throttle.rates_of(broker, rate) for rate in throttle.rates], throttle.brokers[broker]
        for at, key in enumerate(RATES):
            if has[at] != had[at] and has[at] in {rates[at] for rates in given}:
                back: Change = (key, DELETE, None) if had[at] is None else (key, SET, str(had[at]))
                found.setdefault(broker, []).append(back)
    return found


def _until_none(look: Callable[[], dict[str, str]], seconds: float) -> dict[str, str]:
    """Repeat a check until it reports nothing or the time is up; return its last report.

    A broker answers from its own metadata, which follows the controller with a short delay: the first answer might
    lack what was set just before.
    """
    deadline = time.monotonic() + seconds
    while (found := look()) and time.monotonic() < deadline:
        time.sleep(_AGAIN_SECONDS)
    return found


def _rates(send_each: SendEach, brokers: Iterable[int]) -> dict[int, Standing | KafkaCallFailed]:
    found: dict[int, Standing | KafkaCallFailed] = {}
    for broker, entries in broker_configs(send_each, brokers, RATES).items():
        if isinstance(entries, KafkaCallFailed):
            found[broker] = entries
            continue
        own = {
            each.name: int(each.value) for each in entries if each.config_source == OF_THE_BROKER and each.value
        }
        found[broker] = (own.get(RATES[0]), own.get(RATES[1]))
    return found


def _lists(send: Send, topics: list[str]) -> dict[str, Listed]:
    """Return the entries of existing topics."""
    return {
        topic: (leads or frozenset(), follows or frozenset())
        for topic, (leads, follows) in _own_lists(send, topics).items()
    }


def _own_lists(send: Send, topics: list[str]) -> dict[str, OwnLists]:
    """Return the own entries of existing topics."""
    found: dict[str, OwnLists] = {}
    for topic, entries in topic_configs(send, topics, LISTS).items():
        own = {each.name: _entries(each.value or "") for each in entries if each.config_source == OF_THE_TOPIC}
        found[topic] = (own.get(LISTS[0]), own.get(LISTS[1]))
    return found


def _text(entries: Iterable[str]) -> str:
    return ",".join(sorted(entries))


def _entries(text: str) -> frozenset[str]:
    return frozenset(entry.strip() for entry in text.split(",") if entry.strip())
