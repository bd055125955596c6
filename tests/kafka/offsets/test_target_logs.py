"""Scans of a cluster's log for several groups at once, near its end and far behind."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace

import pytest

from backend.domain.distribution.rescan import Checkpoint
from backend.domain.offsets import target_log
from backend.domain.offsets.offset_map import GroupPartition, Progress
from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.groups.group_offsets import GroupOffsets, Setting
from backend.kafka.logs.log_ends import ends
from backend.kafka.logs.log_ranges import RangeReader
from tests.support.kafka.topics import create_topic, produce
from workers.offsets import offset_choice, target_logs
from workers.offsets.directory import Directory
from workers.offsets.offset_choice import Chooser, OffsetRequest
from workers.offsets.target_logs import ScanMethod, TargetLogs, TargetPartition

STREAM = "acme/retail/prod/orders"
KNOWN = Directory(
    position=1, clusters={}, members=frozenset(), groups={}, streams={}, rules={}, known_origins=frozenset({1}),
    holes={},
)  # fmt: skip


@pytest.fixture
def log(servers):
    """Create a log with 3,000 records produced there, with a checkpoint every 500."""
    topic = f"scan-{secrets.token_hex(4)}"
    create_topic(servers["cluster-1"], topic, 1)
    produce(servers["cluster-1"], topic, [{"value": b"%d" % n, "partition": 0} for n in range(3_000)])
    checkpoints = [Checkpoint(at, 1, {1: (1, at - 1)}) for at in range(500, 3_000, 500)]
    return TargetPartition(
        place=(STREAM, 0), topic=topic, incarnations=((0, 1),), low=0, end=3_000, checkpoints=checkpoints
    )


@pytest.fixture
def logs(servers):
    reader = RangeReader(client_config(servers["cluster-1"], {}))
    yield TargetLogs(reader, 1, ("copy-flags", "copy-origin"))
    reader.close()


def progress(read):
    return Progress(timestamp_ms=1, committed_at_ms=1, generation=1, vector={1: (1, read - 1)}, offset=read)


def test_groups_far_behind_share_a_walk_with_their_neighbours(log, logs, monkeypatch):
    monkeypatch.setattr(target_logs, "HELD_RECORDS", 600)
    every = [progress(read) for read in (1_700, 10, 400, 2_990, 1_020, 600)]
    ways = [
        ScanMethod.SEARCH,
        ScanMethod.SEARCH,
        ScanMethod.SEARCH,
        ScanMethod.SCAN,
        ScanMethod.SEARCH,
        ScanMethod.SEARCH,
    ]
    assert [logs.method_for(log, each.read) for each in every] == ways
    together = logs.neighbours(log, [each.read for each in every])
    assert together == [1, 2, 5], "those whose scans begin within so many records of the first one's"
    some = [every[index] for index in together]
    assert [each.offset for each in logs.search(log, some, KNOWN)] == [10, 400, 600]
    assert [each.offset for each in logs.search(log, every, KNOWN)] == [1_700, 10, 400, 2_990, 1_020, 600]
    assert {(each.settled, each.re_read_bound) for each in logs.search(log, every, KNOWN)} == {(True, 0)}
    beyond = logs.search(log, [progress(3_000), progress(3_400)], KNOWN)
    assert [(each.offset, each.settled) for each in beyond] == [(3_000, True), (3_000, False)]


@pytest.mark.nightly  # waits for timeouts of clusters that do not answer
def test_a_partition_that_cannot_be_asked_is_left_out_and_the_cluster_goes_on(log, servers):
    config = client_config(servers["cluster-1"], {})
    assert ends(config, [(log.topic, 0), (log.topic, 99)], 10) == {(log.topic, 0): (0, 3_000)}
    assert ends(config, [(log.topic, 99), ("there-is-none", 0)], 10) == {}
    with pytest.raises(KafkaCallFailed):
        ends(client_config("127.0.0.1:1", {}), [(log.topic, 0)], 2)


@pytest.mark.nightly
def test_offsets_of_many_groups_are_set_side_by_side_each_its_own(log, servers):
    mark, config = secrets.token_hex(4), client_config(servers["cluster-1"], {})
    place = (log.topic, 0)
    wanted = {f"many-{mark}-{n}": {place: Setting(offset=n, metadata=f"of {n}")} for n in range(60)}
    offsets = GroupOffsets(config)
    offsets.open_for(60)
    answers = offsets.set({**wanted, f"lost-{mark}": {("no-such-topic", 0): Setting(offset=1, metadata="")}})
    refused = answers.pop((f"lost-{mark}", ("no-such-topic", 0)))
    assert refused is not None and not refused.has_members
    assert answers == {(group, place): None for group in wanted}
    stood = GroupOffsets(config).committed(dict.fromkeys(wanted, (place,)))
    assert {key: (each.offset, each.metadata) for key, each in stood.items()} == {
        (group, place): (one[place].offset, one[place].metadata) for group, one in wanted.items()
    }
    with pytest.raises(KafkaCallFailed):
        GroupOffsets(client_config("127.0.0.1:1", {})).open_for(60)


def test_what_is_held_of_all_logs_is_bounded(log, logs, monkeypatch):
    monkeypatch.setattr(target_logs, "HELD_IN_ALL", 1_500)
    for number in range(4):
        one = replace(log, place=(f"{STREAM}-{number}", 0))
        (found,) = logs.scan([(one, [{1: (1, 2_099)}])], KNOWN)
        assert target_log.exact({1: (1, 2_099)}, {1: (1, 2_099)}, found).offset == 2_100
    assert sum(held.log.size for held in logs._held.values()) <= 1_500
    assert list(logs._held) == [(f"{STREAM}-3", 0)]


def test_a_walk_that_is_far_behind_is_not_gone_on_with(log, logs, monkeypatch):
    monkeypatch.setattr(target_logs, "HELD_RECORDS", 600)
    early, read = replace(log, end=400), {1: (1, 2_990)}
    assert logs.method_for(early, {}) is ScanMethod.SCAN
    list(logs.scan([(early, [{}])], KNOWN))
    assert logs.method_for(replace(log, end=900), read) is ScanMethod.HELD
    assert logs.method_for(log, read) is ScanMethod.SCAN
    (found,) = logs.scan([(log, [read])], KNOWN)
    assert (found.first, target_log.exact(read, read, found).offset) == (2_500, 2_991)


def test_what_a_search_holds_is_bounded(log, logs, monkeypatch):
    monkeypatch.setattr(target_logs, "MOST_SEARCHED", 500)
    # Records of cluster 2 that the group has read are not here, however far the search goes.
    lacking = replace(progress(10), vector={1: (1, 9), 2: (1, 5)})
    (found,) = logs.search(replace(log, checkpoints=()), [lacking], KNOWN)
    assert (found.offset, found.re_read_bound, found.settled) == (10, None, False)


def test_a_search_does_not_look_for_what_is_born_nowhere(log, logs, monkeypatch):
    monkeypatch.setattr(target_logs, "MOST_SEARCHED", 500)
    # It committed on a cluster that has only copies: nothing says that these are all.
    there = replace(progress(10), passed={2: (1, 9)})
    (found,) = logs.search(replace(log, end=2_900, checkpoints=()), [there], KNOWN)
    assert (found.offset, found.re_read_bound, found.settled) == (10, 0, True)


def test_all_that_a_group_has_read_is_counted_before_a_search_ends(log, logs):
    # Its vector ends at 5, since later records were deleted where it committed; here they exist.
    one = replace(progress(6), vector={1: (1, 5)}, passed={1: (1, 2_400)})
    (found,) = logs.search(replace(log, checkpoints=()), [one], KNOWN)
    assert (found.offset, found.settled) == (2_401, True)


def test_a_log_that_cannot_be_read_leaves_out_its_own_groups_alone(log, servers, monkeypatch):
    config = client_config(servers["cluster-1"], {})
    reader, offsets = RangeReader(config), GroupOffsets(config)
    broken = f"{log.topic}-broken"
    create_topic(servers["cluster-1"], broken, 1)
    stopped = f"{STREAM}-broken"
    streams = {stream: Stream({"cluster-1": 1}, {"cluster-1": {}}) for stream in (STREAM, stopped)}
    known = replace(KNOWN, streams=streams)
    logs = TargetLogs(reader, 1, ("copy-flags", "copy-origin"))
    # Longer than two turns take on a busy machine.
    monkeypatch.setattr(offset_choice, "_FIRST_PAUSE_SECONDS", 600.0)
    chooser = Chooser("cluster-1", offsets, logs, lambda _: {})
    goals = []
    for stream, topic in ((stopped, broken), (STREAM, log.topic)):
        tenant, instance, environment, name = stream.split("/")
        whose = GroupPartition(
            tenant=tenant, instance=instance, environment=environment, stream=name, partition=0, group="g"
        )
        goals.append(OffsetRequest(group_partition=whose, topic=topic, progress=progress(10), exact=True))
    scan, asked = logs.scan, []

    def refused(some, known):
        some = list(some)
        topics = [one.topic for one, _ in some]
        asked.extend([topics] if topics else [])
        if broken in topics:
            raise KafkaCallFailed("Broker: Topic authorization failed")
        return scan(some, known)

    monkeypatch.setattr(logs, "scan", refused)
    for _ in range(2):
        resumptions = chooser.choose(goals, lambda: known)
        assert {each.stream_name: found.chosen.offset for each, found in resumptions.items()} == {STREAM: 10}
    assert asked[0] == [broken, log.topic], "they are read together"
    assert sorted(asked[1:3]) == sorted([[broken], [log.topic]]), "until one cannot be read"
    assert asked[3:] == [[log.topic]], "that is left alone for a while then"
    reader.close()


@dataclass(frozen=True)
class Stream:
    """The parts of a stream's row that are used."""

    incarnations: dict[str, int]
    tails: dict[str, dict]
