"""A schedule of faults on a real Kafka while records are produced, and all that was observed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

from tests.support.drills.clock import Clock
from tests.support.drills.cluster import Cluster
from tests.support.drills.faults import Done, Fault, carry_out, in_order
from tests.support.drills.history import History, read_history
from tests.support.drills.workload import Logged, Sent, Workload, read_log

RECORDS_A_SECOND = 200
_STEADY_MS = 50.0
"""Acknowledgements come every few milliseconds: a silence that begins so shortly before a fault is of that one."""


@dataclass(frozen=True)
class Gap:
    """The longest time without an acknowledgement that begins at a fault, or after it and before the next one."""

    fault: Fault
    begins_ms: float
    length_ms: float
    """Infinite if nothing was acknowledged after it."""


@dataclass(frozen=True)
class Observed:
    """A drill from its beginning until all brokers were back in sync."""

    topic: str
    sent: tuple[Sent, ...]
    log: tuple[Logged, ...]
    history: History
    done: tuple[Done, ...]
    gaps: tuple[Gap, ...]
    """One for each fault, in their order."""

    @property
    def acknowledged(self) -> dict[int, int | None]:
        """Offsets by number, as the acknowledgements said."""
        return {each.number: each.offset for each in self.sent if each.acknowledged_ms is not None}

    @property
    def errors(self) -> dict[int, str]:
        """Return offsets by record number; a record without an answer has an entry, too."""
        return {each.number: each.error or "nothing heard" for each in self.sent if each.acknowledged_ms is None}


def run(cluster: Cluster, topic: str, faults: Iterable[Fault], seconds: float) -> Observed:
    """Create the topic (led by broker 1), produce for so many seconds under the faults, and read the log.

    All brokers are back before the log is read.

    For the main thread (see Cluster). The cluster must be whole, and is so afterwards.

    Raises ValueError if a fault makes no sense, or comes after the last record.
    """
    wanted = in_order(faults)
    if wanted and wanted[-1].at_ms >= 1000 * seconds:
        raise ValueError(f"{wanted[-1]} comes when nothing is produced any more")
    cluster.create(topic)
    workload = Workload(cluster.servers, topic)
    clock = Clock()
    with ThreadPoolExecutor(1) as beside:
        producing = beside.submit(workload.run, clock, seconds, RECORDS_A_SECOND)
        try:
            done = carry_out(wanted, cluster, clock)
            clock.wait_until(1000 * seconds)
        finally:
            cluster.repair()
        sent = producing.result()
    cluster.wait_in_sync(topic)
    return Observed(
        topic=topic,
        sent=tuple(sent),
        log=tuple(read_log(cluster.servers, topic, cluster.segments(topic))),
        history=read_history(cluster.kafka, cluster.metadata_log, topic, clock),
        done=tuple(done),
        gaps=tuple(gaps(done, [each.acknowledged_ms for each in sent if each.acknowledged_ms is not None])),
    )


def gaps(done: Sequence[Done], acknowledged_ms: Iterable[float]) -> list[Gap]:
    """One for each fault: how long at most nothing was acknowledged from then on."""
    times = sorted(acknowledged_ms)
    found = []
    for at, each in enumerate(done):
        began = each.began_ms
        until = done[at + 1].began_ms - _STEADY_MS if at + 1 < len(done) else math.inf
        after = [began, *(time for time in times if time > began)]
        silences = [(later - earlier, earlier) for earlier, later in pairwise(after)]
        length, begins = max(
            ((length, earlier) for length, earlier in silences if earlier == began or earlier < until),
            default=(math.inf, began),
        )
        found.append(Gap(each.fault, begins, length))
    return found
