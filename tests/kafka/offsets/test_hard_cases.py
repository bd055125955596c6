"""Commits outside the log, unusual records, and maps that come late.

Cases that pause distributors run alone, with the long tests: others use the estate at the same time.
"""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from backend.domain.offsets import commit_metadata, offset_map
from backend.domain.offsets.offset_map import Progress
from tests.eventually import eventually
from tests.kafka.offsets.at_once import at_once
from tests.support.estate.groups import MAP_TOPIC, Groups, Made, group_partition, numbered
from tests.support.kafka.topics import DEADLINE_SECONDS, produce, read_all


def where(groups: Groups) -> dict[str, str | None]:
    """Return the record that the group reads next, by cluster."""
    return {cluster: groups.next_value(cluster) for cluster in groups.servers}


@at_once
def test_a_commit_past_the_end(make_groups: Made):
    groups = make_groups("exact")
    groups.produce("cluster-1", numbered(20), timestamp=int(time.time() * 1000) - 900_000)
    groups.wait_for(20)
    groups.commit("cluster-1", 5_000)
    applied = groups.until_applied("cluster-1", 5_000)
    for cluster, row in applied.items():
        assert 0 <= row["offset"] <= groups.log(cluster)[-1][0] + 2, "never past the end"
        assert groups.next_value(cluster) is None


@at_once
def test_a_commit_before_the_beginning(make_groups: Made):
    groups = make_groups("exact")
    groups.produce("cluster-1", numbered(50))
    groups.wait_for(50)
    admin = AdminClient({"bootstrap.servers": groups.servers["cluster-1"]})
    (gone,) = admin.delete_records([TopicPartition(groups.topics["cluster-1"], 0, 24)]).values()
    gone.result(DEADLINE_SECONDS)
    groups.commit("cluster-1", 10)
    applied = groups.until_applied("cluster-1", 10)
    assert {value for cluster, value in where(groups).items() if cluster != "cluster-1"} == {"r0010"}
    bounds = {row["re_read_bound"] for row in applied.values()}
    assert bounds == {None}, "what it has read is gone there, and nobody has looked before"


@at_once
@pytest.mark.nightly  # a commit before the beginning stays
def test_what_is_committed_again_when_the_log_is_empty_by_now(make_groups: Made):
    groups = make_groups("exact")
    groups.produce("cluster-1", numbered(50))
    groups.wait_for(50)
    at = groups.offset_of("cluster-1", "r0049") + 1
    groups.commit("cluster-1", at)
    groups.until_applied("cluster-1", at)
    stood = {cluster: groups.stands(cluster)[0] for cluster in groups.servers}
    admin = AdminClient({"bootstrap.servers": groups.servers["cluster-1"]})
    (gone,) = admin.delete_records([TopicPartition(groups.topics["cluster-1"], 0, at)]).values()
    gone.result(DEADLINE_SECONDS)
    before = groups.shown("cluster-1")
    groups.commit("cluster-1", at)  # as a consumer does that commits in turns, whether or not it has read more
    eventually(
        lambda: (groups.shown("cluster-1") or {})["committed_at_ms"] > before["committed_at_ms"], "it came", 0.2
    )
    groups.until_applied("cluster-1", at)
    assert {cluster: groups.stands(cluster)[0] for cluster in groups.servers} == stood


@at_once
def test_a_sparse_log(make_groups: Made):
    groups, hour = make_groups("margin"), 3_600_000
    now = int(time.time() * 1000)
    for number, hours in enumerate((9, 6, 3, 0)):
        groups.produce("cluster-1", numbered(1, number), timestamp=now - hours * hour)
    groups.wait_for(4)
    at = groups.offset_of("cluster-1", "r0002")
    groups.commit("cluster-1", at)
    for cluster, row in groups.until_applied("cluster-1", at).items():
        # The margin before the last record read falls into a gap of hours without other records.
        assert groups.next_value(cluster) == "r0001" and row["re_read_bound"] >= 1, cluster


@at_once
@pytest.mark.nightly  # progress that ends with its topic: test_committing; a topic made anew: test_gaps
def test_a_topic_that_is_deleted_after_the_commit(make_groups: Made):
    groups, other = make_groups("exact"), make_groups("exact")
    for each in (groups, other):
        each.produce("cluster-1", numbered(10))
        each.wait_for(10)
    idle = groups.another()
    idle.go_on_at("cluster-2", "r0002")
    idle.go_on_at("cluster-1", "r0006")
    groups.commit("cluster-1", 5)
    admin = AdminClient({"bootstrap.servers": groups.servers["cluster-1"]})
    topic = groups.topics["cluster-1"]
    admin.delete_topics([topic])[topic].result(DEADLINE_SECONDS)
    other.go_on_at("cluster-1", "r0005")
    assert {other.next_value(each) for each in other.servers} == {"r0005"}, "nobody else waits for it"
    # The topic is re-created, empty, and the group's commits in it count.
    eventually(lambda: topic in admin.list_topics(timeout=DEADLINE_SECONDS).topics, "it is made anew", 0.5)
    groups.produce("cluster-1", numbered(10, 10))
    groups.wait_for(10, "cluster-1")
    groups.wait_for(20, *(each for each in groups.servers if each != "cluster-1"))
    at = groups.offset_of("cluster-1", "r0015")
    assert at == 5, "the same number as in the topic before: the commit there may be shown as applied by now"
    groups.commit("cluster-1", at)
    eventually(lambda: set(where(groups).values()) == {"r0015"}, "it goes on from the new one", 0.3)
    # With the topic, cluster-1 has deleted the other group's offset. Of the new topic it has read nothing.
    eventually(lambda: idle.next_value("cluster-1") == "r0010", "it goes on in the new one", 0.3)
    assert {idle.next_value(each) for each in idle.servers if each != "cluster-1"} == {"r0006"}
    idle.go_on_at("cluster-3", "r0012")
    assert set(where(idle).values()) == {"r0012"}


@at_once
def test_a_commit_on_an_empty_partition(make_groups: Made):
    groups = make_groups("margin", partitions=2)
    groups.produce("cluster-1", numbered(5))
    groups.commit("cluster-1", 0, partition=1)
    for cluster in groups.until_applied("cluster-1", 0, 1):
        assert groups.stands(cluster, 1)[0] == 0
    groups.produce("cluster-1", ["later"], partition=1)
    eventually(
        lambda: {groups.next_value(c, 1) for c in groups.servers} == {"later"}, "it is read everywhere", 0.3
    )


@at_once
def test_only_markers_and_aborted_records_behind_the_commit(make_groups: Made):
    groups = make_groups("exact")
    groups.produce("cluster-1", numbered(10))
    producer = Producer(
        {"bootstrap.servers": groups.servers["cluster-1"], "transactional.id": f"test-{groups.group}"}
    )
    producer.init_transactions(20)
    for commits in (True, False, True, False):
        producer.begin_transaction()
        for number in range(3):
            value = f"{'done' if commits else 'aborted'}{number}"
            producer.produce(groups.topics["cluster-1"], value.encode(), partition=0)
        producer.flush(20)
        (producer.commit_transaction if commits else producer.abort_transaction)(20)
    groups.wait_for(16)
    last = groups.log("cluster-1")[-1][0]
    groups.commit("cluster-1", last + 2)
    groups.until_applied("cluster-1", last + 2)
    assert set(where(groups).values()) == {None}
    groups.produce("cluster-1", ["next"])
    eventually(lambda: set(where(groups).values()) == {"next"}, "nothing of it is skipped", 0.3)


@at_once
def test_a_commit_among_records_of_an_open_transaction(make_groups: Made):
    """Commit as a consumer that reads uncommitted records, which Java's do by default."""
    groups = make_groups("exact")
    groups.produce("cluster-1", numbered(10))
    groups.wait_for(10)
    producer = Producer(
        {"bootstrap.servers": groups.servers["cluster-1"], "transactional.id": f"test-{groups.group}"}
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    for value in numbered(10, 10):
        producer.produce(groups.topics["cluster-1"], value.encode(), partition=0)
    producer.flush(20)
    others = [each for each in groups.servers if each != "cluster-1"]
    groups.commit("cluster-1", 15)
    eventually(lambda: all(groups.applied("cluster-1", each) for each in others), "what is known is applied", 0.2)
    rows = [groups.applied("cluster-1", each) for each in others]
    assert {row["re_read_bound"] for row in rows if row} == {None}, "some of what it has read is not there yet"
    producer.commit_transaction(20)
    groups.wait_for(20)

    def settled() -> bool:
        rows = [groups.applied("cluster-1", each) for each in others]
        return all(row and row["settled"] and row["re_read_bound"] == 0 for row in rows)

    eventually(settled, "now all is known, without another commit", 0.3)
    assert set(where(groups).values()) == {"r0015"}


@at_once
def test_a_record_of_the_future_skips_nothing(make_groups: Made):
    groups = make_groups("margin", retention_ms=-1)
    now = int(time.time() * 1000)
    groups.produce("cluster-1", numbered(10), timestamp=now)
    groups.produce("cluster-1", ["future"], timestamp=now + 1_800_000)
    groups.produce("cluster-1", numbered(10, 10), timestamp=now)
    groups.wait_for(21)
    at = groups.offset_of("cluster-1", "future") + 1
    groups.commit("cluster-1", at)
    for cluster, row in groups.until_applied("cluster-1", at).items():
        first = groups.next_value(cluster)
        assert first is not None and first <= "r0010"
        log = groups.log(cluster)
        behind = sum(row["offset"] <= offset < groups.offset_of(cluster, "r0010") for offset, _ in log)
        assert behind <= row["re_read_bound"]
    item = groups.shown("cluster-1")
    assert item is not None and item["timestamp_ms"] == now + 1_800_000 and item["safe_timestamp_ms"] == now


@at_once
def test_times_of_the_broker_and_equal_ones(make_groups: Made):
    groups = make_groups("exact", retention_ms=-1)
    groups.configure("cluster-2", {"message.timestamp.type": "LogAppendTime"})
    groups.produce("cluster-2", numbered(30), timestamp=1_000)
    groups.produce("cluster-1", numbered(30, 30), timestamp=2_000_000_000)
    groups.wait_for(60)
    for cluster, value in (("cluster-2", "r0010"), ("cluster-1", "r0040")):
        at = groups.offset_of(cluster, value)
        groups.commit(cluster, at)
        applied = groups.until_applied(cluster, at)
        for other, row in applied.items():
            read = {found for offset, found in groups.log(cluster) if offset < at}
            skipped = {found for offset, found in groups.log(other) if offset < row["offset"]}
            assert skipped <= read, f"{other} skips {skipped - read}"
            again = [found for offset, found in groups.log(other) if offset >= row["offset"] and found in read]
            assert len(again) <= row["re_read_bound"]


@at_once
def test_a_group_that_is_deleted_is_forgotten_but_goes_back_nowhere(make_groups: Made):
    groups = make_groups("exact")
    groups.produce("cluster-1", numbered(30))
    groups.wait_for(30)
    early, late = groups.offset_of("cluster-2", "r0010"), groups.offset_of("cluster-1", "r0020")
    groups.commit("cluster-2", early)
    groups.until_applied("cluster-2", early)
    groups.commit("cluster-1", late)
    groups.until_applied("cluster-1", late)
    groups.delete_group("cluster-1")
    eventually(lambda: groups.shown("cluster-1") is None, "it is listed no more", 0.2)
    time.sleep(3)  # time enough to do wrong
    assert groups.stands("cluster-1")[0] == -1001, "what it had made on cluster-2 before stays away"
    assert {groups.next_value(each) for each in ("cluster-2", "cluster-3", "cluster-4")} == {"r0020"}
    groups.go_on_at("cluster-3", "r0025")
    assert set(where(groups).values()) == {"r0025"}


@at_once
def test_a_map_that_comes_late_or_is_none(make_groups: Made):
    groups = make_groups("exact")
    groups.produce("cluster-1", numbered(30))
    groups.wait_for(30)
    groups.go_on_at("cluster-1", "r0020")
    item = groups.shown("cluster-1")
    assert item is not None
    whose = group_partition(groups)
    old = Progress(
        timestamp_ms=1, committed_at_ms=item["committed_at_ms"] - 60_000, generation=1, vector={}, offset=0
    )
    records = [
        {"key": offset_map.encode_key(whose, "cluster-5"), "value": offset_map.encode_value(old), "partition": 0},
        {"key": b"no JSON", "value": b"\x00\xff", "partition": 1},
        {"key": offset_map.encode_key(whose, "cluster-5"), "value": b"{}", "partition": 2},
        {"key": b"{}", "value": None, "partition": 3},
    ]
    for cluster in ("cluster-3", "cluster-4"):
        produce(groups.servers[cluster], MAP_TOPIC, records)
    later = groups.offset_of("cluster-1", "r0025")
    time.sleep(3)  # time enough to do wrong
    assert {groups.next_value(each) for each in groups.servers} == {"r0020"}
    groups.commit("cluster-1", later)
    groups.until_applied("cluster-1", later)
    assert set(where(groups).values()) == {"r0025"}


@at_once
def test_metadata_of_others(make_groups: Made):
    groups = make_groups("exact")
    groups.produce("cluster-1", numbered(30))
    groups.wait_for(30)
    at = groups.offset_of("cluster-1", "r0010")
    groups.commit("cluster-1", at, metadata='{"flow": "\u00e4", "treeline:": 1}')
    groups.until_applied("cluster-1", at)
    assert set(where(groups).values()) == {"r0010"}
    # Metadata that begins like ours is never an application's progress, whatever follows.
    groups.commit("cluster-2", 3, metadata="treeline:9;something newer")
    groups.go_on_at("cluster-1", "r0020")
    assert set(where(groups).values()) == {"r0020"}
    assert commit_metadata.decode(groups.stands("cluster-2")[1]) is not None
    assert groups.shown("cluster-2") is None


@at_once
def test_a_stream_that_is_deleted_is_listed_no_more(make_groups: Made):
    groups = make_groups("exact")
    groups.produce("cluster-1", numbered(10))
    groups.wait_for(10)
    groups.commit("cluster-1", 5)
    groups.until_applied("cluster-1", 5)
    tenant, instance, environment, stream = groups.place
    path = f"/tenants/{tenant}/instances/{instance}/environments/{environment}/streams/{stream}"
    groups.rest.ok("DELETE", f"{path}?confirm={groups.stream}")
    eventually(lambda: groups.shown("cluster-1") is None, "its offsets are listed no more", 0.2)
    key = offset_map.encode_key(group_partition(groups), "cluster-1")

    def taken_back() -> bool:
        found = [
            message.value() for message in read_all(groups.servers["cluster-3"], MAP_TOPIC) if message.key() == key
        ]
        return len(found) > 1 and found[-1] is None

    eventually(taken_back, "a stream made again under its name would find nothing of it on the map", 0.3)


@at_once
def test_a_compacted_topic_with_holes(make_groups: Made):
    """The broker's log cleaner makes the holes, which takes up to half a minute."""
    groups = make_groups("exact", cleanup_policy="compact")
    for cluster in ("cluster-1", "cluster-4"):
        groups.configure(cluster, {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"})
    made = 0

    def offsets(cluster: str) -> list[int]:
        return [offset for offset, _ in groups.log(cluster)]

    def cleaned() -> bool:
        nonlocal made
        records = [{"key": b"%d" % (n % 7 or n), "value": b"r%04d" % n} for n in range(made, made + 50)]
        produce(groups.servers["cluster-1"], groups.topics["cluster-1"], records)
        made += len(records)
        first, copied = offsets("cluster-1"), groups.log("cluster-4")
        # Few of the numbers up to the last one are left.
        last = int(copied[-1][1][1:]) if copied else 0
        return len(first) < first[-1] - first[0] and len(copied) < last - made // 10

    eventually(cleaned, "the cleaner has made holes on both", 1.0)
    # Records are produced one after the other, nowhere else: offsets of cluster-1 are the numbers.
    left = offsets("cluster-1")
    gone = sorted(set(range(left[-1])) - set(left))
    at = gone[len(gone) // 2]
    groups.commit("cluster-1", at)
    for cluster, row in groups.until_applied("cluster-1", at).items():
        log = groups.log(cluster)
        assert {value for offset, value in log if offset < row["offset"]} <= set(numbered(at)), "skipped"
        assert not {value for offset, value in log if offset >= row["offset"]} & set(numbered(at)), "again"
        assert row["re_read_bound"] == 0
