"""What Kafka promises a producer with acks=all, and of its leaders, held against what a drill observed.

Looked for: a record that was acknowledged and is not in the log; one that the log has twice, or out of order; one
that is elsewhere than its acknowledgement says; a record that nobody sent; a leader that was neither in sync nor
eligible before; a leader that is not in sync while it leads; a leader that was fenced; two leaders with one epoch;
an epoch that goes back; a broker that was killed, registers again, and counts as one that has everything.

One leader may be neither: where nobody is in sync or eligible any more, Kafka takes the one that led last, also
without unclean elections. It has what was acknowledged if its disk has, as after the -9 of a drill; see
`last_resorts`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, takewhile

from tests.replication_live.drill import Observed
from tests.replication_live.history import NO_LEADER, BrokerSeen, History, Seen


@dataclass(frozen=True)
class _Change:
    """Of the partition. `had_all`: who surely had all that was committed, without those that ended uncleanly and
    register again with this very change."""

    before: Seen
    after: Seen
    had_all: frozenset[int]

    @property
    def elects(self) -> bool:
        return self.after.leader not in (NO_LEADER, self.before.leader)

    @property
    def is_last_resort(self) -> bool:
        return self.elects and not self.had_all and self.after.leader in self.before.last_known


def broken(observed: Observed) -> list[str]:
    """Each promise that was broken, in words; none if all were kept."""
    history = observed.history
    return [*_of_records(observed), *_of_elections(history), *_of_brokers(history)]


def last_resorts(history: History) -> list[Seen]:
    """Leaders that were neither in sync nor eligible, and came back since they had led last."""
    return [change.after for change in _changes(history) if change.is_last_resort]


def _of_records(observed: Observed) -> Iterator[str]:
    numbers = [record.number for record in observed.log]
    held = Counter(numbers)
    if lost := sorted(observed.acknowledged.keys() - held.keys()):
        yield f"acknowledged and lost: {lost}"
    if twice := sorted(number for number, times in held.items() if times > 1):
        yield f"written twice: {twice}"
    if unknown := sorted(held.keys() - {each.number for each in observed.sent}):
        yield f"sent by nobody: {unknown}"
    if late := [after for before, after in pairwise(numbers) if after < before]:
        yield f"after records that were sent later: {late}"
    places = {record.offset: record.number for record in observed.log}
    for number, offset in observed.acknowledged.items():
        if offset is not None and places.get(offset) != number and number in held:
            yield f"{number} is not at {offset}, as its acknowledgement says"


def _changes(history: History) -> Iterator[_Change]:
    before: Seen | None = None
    for at, entry in enumerate(history.entries):
        if isinstance(entry, BrokerSeen):
            continue
        if before is not None:
            back = _registered_with(entry, history.entries[at + 1 :])
            yield _Change(before, entry, (before.isr | before.elr) - back)
        before = entry


def _registered_with(change: Seen, rest: Iterable[Seen | BrokerSeen]) -> frozenset[int]:
    # The controller writes both at once: what a registration changes comes first.
    same = takewhile(lambda entry: isinstance(entry, BrokerSeen) and entry.time_ms == change.time_ms, rest)
    return frozenset(
        entry.broker for entry in same if isinstance(entry, BrokerSeen) and entry.what == "registered"
    )


def _of_elections(history: History) -> Iterator[str]:
    for seen in history.partition:
        if seen.leader != NO_LEADER and seen.leader not in seen.isr:
            yield f"leads and is not in sync: {seen}"
    for change in _changes(history):
        before, after = change.before, change.after
        if after.leader_epoch < before.leader_epoch:
            yield f"the leader epoch goes back: {before} {after}"
        elif after.leader != before.leader and after.leader_epoch == before.leader_epoch:
            yield f"two leaders with one epoch: {before} {after}"
        if change.elects and after.leader not in change.had_all and not change.is_last_resort:
            yield f"was neither in sync nor eligible before it led: {before} {after}"


def _of_brokers(history: History) -> Iterator[str]:
    fenced: set[int] = set()
    partition: Seen | None = None
    for entry in history.entries:
        if isinstance(entry, Seen):
            if entry.leader in fenced and (partition is None or entry.leader != partition.leader):
                yield f"is fenced and becomes leader: {entry}"
            partition = entry
        elif entry.what == "unfenced":
            fenced.discard(entry.broker)
        elif entry.what in ("fenced", "registered"):
            fenced.add(entry.broker)
            if entry.what == "registered" and partition and entry.broker in partition.isr | partition.elr:
                yield f"was killed, is back, and counts as in sync or eligible: {entry} {partition}"
