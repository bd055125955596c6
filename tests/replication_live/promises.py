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
from collections.abc import Iterator
from itertools import pairwise

from tests.replication_live.drill import Observed
from tests.replication_live.history import NO_LEADER, BrokerSeen, History, Seen


def broken(observed: Observed) -> list[str]:
    """Each promise that was broken, in words; none if all were kept."""
    return [*_of_records(observed), *_of_leaders(observed.history)]


def last_resorts(history: History) -> list[Seen]:
    """Leaders that were neither in sync nor eligible, and came back since they had led last."""
    return [
        after
        for before, after in pairwise(history.partition)
        if after.leader not in (NO_LEADER, before.leader, *before.isr, *before.elr)
        and after.leader in _may_lead(before)
    ]


def _may_lead(before: Seen) -> frozenset[int]:
    return before.isr | before.elr or before.last_known


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


def _of_leaders(history: History) -> Iterator[str]:
    fenced: set[int] = set()
    before: Seen | None = None
    for entry in history.entries:
        if isinstance(entry, BrokerSeen):
            if entry.what == "unfenced":
                fenced.discard(entry.broker)
            elif entry.what in ("fenced", "registered"):
                fenced.add(entry.broker)
            if entry.what == "registered" and before and entry.broker in before.isr | before.elr:
                yield f"was killed, is back, and counts as in sync or eligible: {entry} {before}"
            continue
        if entry.leader != NO_LEADER and entry.leader not in entry.isr:
            yield f"leads and is not in sync: {entry}"
        if before is not None:
            yield from _of_change(before, entry, fenced)
        before = entry


def _of_change(before: Seen, after: Seen, fenced: set[int]) -> Iterator[str]:
    if after.leader_epoch < before.leader_epoch:
        yield f"the leader epoch goes back: {before} {after}"
    if after.leader == before.leader:
        return
    if after.leader_epoch <= before.leader_epoch:
        yield f"two leaders with one epoch: {before} {after}"
    if after.leader == NO_LEADER:
        return
    if after.leader not in _may_lead(before):
        yield f"was neither in sync nor eligible before it led: {before} {after}"
    if after.leader in fenced:
        yield f"is fenced and becomes leader: {after}"
