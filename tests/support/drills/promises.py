"""Compare Kafka's promises to a producer with acks=all, and about leaders, with the observations of a drill.

Looked for: a record that was acknowledged and is not in the log; one that the log has twice, or out of order; one
that is elsewhere than its acknowledgement says; a record that nobody sent; sequence numbers of a producer's epoch
that come twice or have gaps; a leader that was neither in sync nor eligible before; a leader that is not in sync
while it leads; a leader that was fenced; two leaders with one epoch; an epoch that goes back; a broker that was
killed, registers again, and counts as one that has everything.

One leader may be neither: where nobody is in sync or eligible any more, Kafka takes the one that led last, also
without unclean elections. It has what was acknowledged if its disk has, as after the -9 of a drill; see
`last_resorts`.

A record may be there twice although no promise was broken: Kafka writes a sequence number once in an epoch of the
producer, and librdkafka begins a new epoch while the outcome of earlier requests is open; see `sent_again`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, takewhile

from tests.support.drills.drill import Observed
from tests.support.drills.history import NO_LEADER, BrokerSeen, History, Seen
from tests.support.drills.workload import Logged


@dataclass(frozen=True)
class _Change:
    """A change of the partition.

    `had_all`: the replicas that surely had all committed records, without those that ended uncleanly and
    register again with this very change.
    """

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


def sent_again(observed: Observed) -> list[Logged]:
    """Earlier copies of records that the producer sent again in a new epoch, before it knew of these copies.

    A connection breaks, and nobody knows whether what was in flight is in the log. The producer sends it again
    with the same sequence numbers, several requests at once. The leader refuses the first of them since too few
    replicas are in sync, which it looks at before the sequence numbers; when enough are in sync again, a later one
    is out of order. To this librdkafka answers with a new epoch, in which it sends all of them with new sequence
    numbers (confluentinc/librdkafka#4953; Kafka's own client keeps the epoch). No broker can tell them from new
    records.

    An acknowledged record is never sent again: a copy counts only if the next one has a higher epoch of the same
    producer, and the acknowledgement, if there is one, names the last copy.
    """
    copies: dict[int, list[Logged]] = defaultdict(list)
    for record in observed.log:
        copies[record.number].append(record)
    return [
        copy
        for number, found in copies.items()
        if observed.acknowledged.get(number, found[-1].offset) == found[-1].offset
        for copy, following in pairwise(found)
        if copy.producer_id == following.producer_id and copy.producer_epoch < following.producer_epoch
    ]


def _of_records(observed: Observed) -> Iterator[str]:
    superseded = sent_again(observed)
    once = [record for record in observed.log if record not in superseded]
    held = Counter(record.number for record in once)
    if lost := sorted(observed.acknowledged.keys() - held.keys()):
        yield f"acknowledged and lost: {lost}"
    if twice := sorted(number for number, times in held.items() if times > 1):
        yield f"written twice: {twice}: {[record for record in observed.log if record.number in twice]}"
    if unknown := sorted(held.keys() - {each.number for each in observed.sent}):
        yield f"sent by nobody: {unknown}"
    if late := [after.number for before, after in pairwise(once) if after.number < before.number]:
        yield f"after records that were sent later: {late}"
    yield from _of_sequences(observed.log)
    places = {record.offset: record.number for record in observed.log}
    for number, offset in observed.acknowledged.items():
        if offset is not None and places.get(offset) != number and number in held:
            yield f"{number} is not at {offset}, as its acknowledgement says"


def _of_sequences(log: Iterable[Logged]) -> Iterator[str]:
    epochs: dict[tuple[int, int], list[Logged]] = defaultdict(list)
    for record in log:
        epochs[record.producer_id, record.producer_epoch].append(record)
    for (producer, epoch), records in epochs.items():
        if [record.sequence for record in records] != list(range(len(records))):
            yield f"sequence numbers of epoch {epoch} of producer {producer} have gaps or come twice: {records}"
        if late := [after.number for before, after in pairwise(records) if after.number < before.number]:
            yield f"after records that were sent later in epoch {epoch}: {late}"


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
