"""A record that the target refuses is found among thousands of others, whatever comes in between."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
from confluent_kafka import KafkaError

from backend.kafka.base.errors import CopyFailed
from backend.kafka.base.liveness import LONGEST_STEP_SECONDS
from backend.kafka.copy import native
from backend.kafka.copy.control_plane import ControlPlane
from backend.kafka.copy.session import CopySession
from bench.distribution.refused import Load
from tests.eventually import eventually
from tests.kafka.distribution.test_copy_session import Pair
from tests.kafka.distribution.test_distributor_thread import start, state
from tests.support.kafka.topics import configure

__all__ = ["start"]

PARTITIONS, RATE = 10, 2000
REFUSED = 7
"""Partition of the refused record."""
MOST_ASKED = 2 * 8
STATE = KafkaError._STATE
_LONGEST_DELAY_SECONDS = 0.03


@pytest.fixture(params=[pytest.param("python", marks=pytest.mark.nightly), "native"])
def pair(request, estate):
    if request.param == "native" and not native.available():
        pytest.skip("the native record loop was not built")
    made = Pair(estate, partitions=PARTITIONS, record_loop=request.param)
    configure(made.servers[made.b], made.copy_topic, {"max.message.bytes": "100000"})
    return made


@pytest.mark.nightly  # the search in thousands of records, once more with luck against it
def test_new_records_and_ends_of_partitions_do_not_use_up_the_search(pair, start):
    """Check the search: 50,000 records, then 1,562, 48 and 1; other events may end a session or two more."""
    pair.limits = replace(pair.limits, batch_records=50_000)
    asked = 0

    def leave(plan):
        """Return the permission; each session calls it before it fences its predecessor and after that."""
        nonlocal asked
        asked += 1

    load = Load(pair.servers[pair.a], pair.topic, PARTITIONS, RATE)
    loading = threading.Thread(target=load.run)
    loading.start()
    try:
        thread = start(pair.plan(), leave, ControlPlane(dead_letter=pair.dead_letter))
        eventually(lambda: state(thread).copied_records > RATE, "records flow")
        pair.produce([{"value": b"x" * 200_000, "partition": REFUSED}])
        eventually(lambda: pair.refused or asked > MOST_ASKED, "the record is set aside")
    finally:
        load.over.set()
        loading.join()
    assert pair.refused, f"not within {MOST_ASKED // 2} sessions"
    assert {one.partition for one in pair.refused} == {REFUSED}
    assert len({one.offset for one in pair.refused}) == 1
    eventually(lambda: len(pair.copied()) >= load.sent, "all others are copied")
    assert sorted(int(message.value()) for message in pair.copied()) == list(range(load.sent))


def test_a_refusal_that_comes_while_positions_are_sent_is_told_as_one(pair):
    """Check librdkafka's answer _STATE to the positions, which is no reason to leave the record in place."""
    pair.produce([{"value": b"x" * 200_000, "partition": REFUSED}])
    shortest, longest = 0.0, _LONGEST_DELAY_SECONDS

    def met():
        nonlocal shortest, longest
        delay = (shortest + longest) / 2
        failure, passed = refused_after(pair, delay)
        assert failure.refused, failure.detail
        shortest, longest = (delay, longest) if passed else (shortest, delay)
        if longest - shortest < _LONGEST_DELAY_SECONDS / 64:
            shortest, longest = 0.0, _LONGEST_DELAY_SECONDS
        # The answer to the call itself, before the transaction's own failure is read.
        return failure.__cause__.__cause__ is not None and failure.__cause__.__cause__.args[0].code() == STATE

    eventually(met, "positions meet the refusal on their way")


def refused_after(pair, delay_seconds):
    """Return a session's failure, and whether its positions were accepted.

    The session waits this long between producing the record and sending the positions.
    """
    passed = False

    def alive(within_seconds=LONGEST_STEP_SECONDS):
        nonlocal passed
        passed = within_seconds == LONGEST_STEP_SECONDS
        if not passed:
            time.sleep(delay_seconds)

    session = CopySession(pair.plan(), pair.limits, alive, ControlPlane(dead_letter=pair.dead_letter))
    session.open(lambda: True)
    try:
        with pytest.raises(CopyFailed) as failed:
            while True:
                session.copy_batch(0.2)
        return failed.value, passed
    finally:
        session.close()
