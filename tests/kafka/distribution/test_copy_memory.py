"""Records of 10 MiB are copied unchanged, by a process whose memory does not depend on their number."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from tests.kafka.distribution.test_copy_session import Pair, drain
from tests.support.kafka.topics import create_topic, read_from_zero

SIZE_BYTES = 10 * 1024 * 1024
ROOM = {"max.message.bytes": str(SIZE_BYTES + 64 * 1024)}
FEW, MANY, VERY_MANY = 4, 20, 48


class LargePair(Pair):
    """Two topics that accept such records."""

    def make_topics(self, partitions):
        for servers, topic in ((self.servers[self.a], self.topic), (self.servers[self.b], self.copy_topic)):
            create_topic(servers, topic, partitions, **ROOM)


def copied_by_a_process_of_its_own(pair):
    """Copy in a separate process and return its peak memory in bytes."""
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_copy, args=(pair.plan(), pair.limits, sending))
    process.start()
    peak = receiving.recv()
    process.join()
    return peak


def _copy(plan, limits, sending):
    from backend.kafka.copy.session import CopySession

    session = CopySession(plan, limits)
    session.open(lambda: True)
    drain(session)
    session.close()
    # Not by getrusage, which starts with the parent's peak.
    (line,) = [row for row in Path("/proc/self/status").read_text().splitlines() if row.startswith("VmHWM:")]
    sending.send(int(line.split()[1]) * 1024)


@pytest.mark.parametrize("record_loop", [pytest.param("python", marks=pytest.mark.nightly), "native"])
@pytest.mark.parametrize("most", [MANY, pytest.param(VERY_MANY, marks=pytest.mark.nightly)])
def test_memory_does_not_grow_with_the_backlog_of_large_records(estate, record_loop, most):
    peaks = []
    for count in (FEW, most):
        pair = LargePair(estate, partitions=2, record_loop=record_loop)
        records = [{"value": bytes([n]) * (SIZE_BYTES - 1000), "partition": n % 2} for n in range(count)]
        pair.produce(records, **{"message.max.bytes": SIZE_BYTES + 1000})
        peaks.append(copied_by_a_process_of_its_own(pair))
        found = [(m.value()[0], len(m.value())) for m in read_from_zero(pair.servers[pair.b], pair.copy_topic)]
        assert sorted(found) == [(n, SIZE_BYTES - 1000) for n in range(count)]
    few, many = peaks
    assert many < few + 8 * SIZE_BYTES, f"{few >> 20} MiB for {FEW} records, {many >> 20} MiB for {most}"
