"""Records of every kind that Kafka accepts, on streams that change while they flow.

`history.draft` makes them: without key, value, time or headers, tombstones, a thousand headers, headers that
imitate ours (unreadable, duplicated, empty), timestamps that are off and out of order; and aborted transactions.
"""

from __future__ import annotations

import uuid

import pytest

from tests.eventually import eventually
from tests.faults.history import FLAGS, Draft
from tests.faults.runs import Place, Run, passed
from tests.kafka.distribution.test_copy_session import Pair
from tests.support.kafka.topics import configure, produce, read_all

LONGEST_TOPIC = 249

KINDS = {
    "no key": lambda draft: draft.key is None,
    "tombstone": lambda draft: draft.value is None and draft.key is not None,
    "neither": lambda draft: draft.value is None and draft.key is None,
    "empty, not null": lambda draft: draft.value == b"" and draft.key == b"",
    "no time": lambda draft: draft.timestamp_ms is None,
    "a thousand headers": lambda draft: len(draft.others) == 1000,
    "unreadable flags": lambda draft: len(draft.ours) == 1 and draft.ours[0][0] == FLAGS,
    "doubled flags": lambda draft: len(draft.ours) == 2,
}


@pytest.fixture(scope="module")
def whole(estate) -> Place:
    """Return the session's estate, which these tests leave intact."""
    return Place(estate)


# Kinds of records in test_copy_session; names of 249 characters in test_long_names and test_names_and_formats.
@pytest.mark.nightly
def test_records_of_every_kind_under_the_longest_names(whole):
    prefix = "acme-retail-prod-"
    with Run(whole, name="n" * (LONGEST_TOPIC - len(prefix)), replication_factor=1) as run:
        assert max(len(member.topic) for member in run.fleet.members) == LONGEST_TOPIC
        eventually(lambda: not missing_kinds(run), "every kind was sent")
    passed(run)


def missing_kinds(run: Run) -> set[str]:
    drafts: list[Draft] = [run.history.redraft("cluster-1", n) for n in range(len(run.history.sends["cluster-1"]))]
    return {name for name, holds in KINDS.items() if not any(map(holds, drafts))}


@pytest.mark.nightly
def test_partitions_are_added_while_records_flow(whole):
    with Run(whole, partitions=2, replication_factor=1) as run:
        run.flow(1)
        run.grow(5)
        run.flow(1)
    passed(run)
    assert {send.partition for sends in run.history.sends.values() for send in sends} == set(range(5))


@pytest.mark.nightly
def test_a_compacted_source_with_holes(estate):
    """Check a compacted source: the broker's log cleaner makes the gaps, which takes up to half a minute."""
    pair = Pair(estate, partitions=1)
    servers = pair.servers[pair.a]
    config = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    configure(servers, pair.topic, config)

    def rewritten() -> bool:
        often = [{"key": b"k%d" % (n % 7), "value": b"%d" % n} for n in range(50)]
        # The only record of a key stays where it is, between those that are removed.
        produce(servers, pair.topic, [*often, {"key": uuid.uuid4().bytes, "value": b"once"}])
        offsets = [message.offset() for message in read_all(servers, pair.topic)]
        return len(offsets) < offsets[-1] - offsets[0]

    eventually(rewritten, "the cleaner has made holes", every_seconds=1.0)
    pair.copy_until_idle()
    source = [(m.key(), m.value(), m.timestamp()) for m in read_all(servers, pair.topic)]
    copies = [(m.key(), m.value(), m.timestamp()) for m in pair.copied()]
    # Cleaning may continue between the two reads: what the source still has must be there, in order, once.
    left = set(source)
    assert [each for each in copies if each in left] == source
    assert len(set(copies)) == len(copies)
