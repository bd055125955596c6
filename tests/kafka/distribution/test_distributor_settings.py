"""Pause, rate limit and compression of distributors, on real clusters."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from confluent_kafka import Producer, TopicPartition

from backend.domain.tree.distributor_settings import COMPRESSIONS
from backend.kafka.copy import session as copy_session
from backend.settings import PROJECT_ROOT
from tests.eventually import eventually
from tests.kafka.distribution.test_copy_session import LIMITS, Pair, drain, numbered, values
from tests.kafka.distribution.test_distributor_thread import start, state  # noqa: F401  (a fixture)
from tests.nightly import some_now
from tests.support.api.rest_client import RestClient
from tests.support.kafka.topics import read_all

THREE = "tests/support/estate/three.yaml"
STREAM = "acme/retail/prod/orders"


@pytest.fixture
def pair(estate):
    return Pair(estate)


def copied_once(pair, count):
    """Check that every record is on the target exactly once, in order per partition."""
    found = pair.copied()
    wanted = [record["value"] for record in numbered(count)]
    assert sorted(values(found)) == sorted(wanted)
    for partition in range(2):
        numbers = [int(message.value()) for message in found if message.partition() == partition]
        assert numbers == sorted(numbers)


def test_a_paused_task_copies_nothing_and_goes_on_where_it_was(pair, start):  # noqa: F811
    plan = pair.plan()
    records = numbered(60)
    pair.produce(records[:20])
    thread = start(plan)
    eventually(lambda: len(pair.copied()) == 20, "all is copied")
    thread.assign(replace(plan, paused=True), 8)
    eventually(lambda: (state(thread).state, state(thread).position) == ("paused", 8), "paused")
    pair.produce(records[20:])
    # The lag is read while no records are.
    eventually(lambda: state(thread).lag_records == 40, "the lag grows")
    eventually(lambda: (state(thread).wait_seconds or 0) > 1, "and for how long it waits")
    assert state(thread).state == "paused"
    assert len(pair.copied()) == 20
    thread.assign(plan, 9)
    eventually(lambda: len(pair.copied()) >= 60, "the rest is copied")
    eventually(lambda: state(thread).lag_records == 0, "no lag")
    eventually(lambda: state(thread).wait_seconds == 0, "nothing waits")
    assert state(thread).state == "running"
    copied_once(pair, 60)


@pytest.mark.nightly  # a task that is paused stays
def test_a_task_that_begins_paused_waits_and_stops_when_told(pair, start):  # noqa: F811
    plan = pair.plan()
    pair.produce(numbered(10))
    thread = start(replace(plan, paused=True))
    eventually(lambda: state(thread).state == "paused", "paused")
    second = start(replace(plan, paused=True))
    eventually(lambda: state(second).state == "paused", "its successor too")
    assert pair.copied() == []
    second.assign(plan, 8)
    eventually(lambda: len(pair.copied()) >= 10, "copied by the successor")
    copied_once(pair, 10)


@pytest.mark.nightly  # the reason of a target that is away: test_distributor_thread
def test_a_paused_task_says_why_it_could_not_go_on(pair, start):  # noqa: F811
    plan = pair.plan()
    away = replace(plan, paused=True, target=replace(plan.target, bootstrap_servers="127.0.0.1:9"))
    thread = start(away)
    seen = eventually(lambda: state(thread).reason and state(thread), "the reason")
    assert (seen.state, plan.target.name in seen.reason) == ("paused", True)


def test_a_limited_task_is_held_back_and_a_lifted_limit_lets_it_go(pair, start):  # noqa: F811
    plan = pair.plan()
    records = [{**record, "headers": [("padding", b"x" * 1000)]} for record in numbered(400)]
    pair.produce(records)
    # The rest would take minutes: its absence shows that it was held back, however fast the test looks.
    thread = start(replace(plan, bytes_per_second=1_000.0))
    eventually(lambda: state(thread).copied_records > 0, "some are copied")
    eventually(lambda: (state(thread).lag_records or 0) > 0, "the others wait")
    assert state(thread).state == "running"
    assert 0 < len(pair.copied()) < 400
    assert state(thread).copied_bytes >= 1000 * state(thread).copied_records
    thread.assign(plan, 8)
    eventually(lambda: len(pair.copied()) >= 400, "all is copied")
    copied_once(pair, 400)


@pytest.mark.nightly  # a limited task whose limit is lifted delivers everything, too
def test_a_limited_task_delivers_everything(pair, start):  # noqa: F811
    pair.produce(numbered(300))
    start(replace(pair.plan(), bytes_per_second=20_000.0))
    eventually(lambda: len(pair.copied()) >= 300, "all is copied")
    copied_once(pair, 300)


# --- compression


def codecs(estate, topic):
    """Return the codecs of all batches with records in a topic's files (attributes, bits 0..2)."""
    found = set()
    for file in estate.home.rglob(f"{topic}-*/*.log"):
        data, at = file.read_bytes(), 0
        while at + 61 <= len(data):
            length, attributes = (
                struct.unpack_from(">i", data, at + 8)[0],
                struct.unpack_from(">h", data, at + 21)[0],
            )
            control = attributes & 0x20
            if length <= 0:
                break  # the file is longer than what was written to it
            if not control:
                found.add(("none", "gzip", "snappy", "lz4", "zstd")[attributes & 7])
            at += 12 + length
    return found


@some_now("compression", COMPRESSIONS, now=(1,))
def test_copies_are_compressed_as_chosen(estate, pair, compression):
    pair.produce([{"value": b"again and " * 200, "key": b"k", "partition": n % 2} for n in range(50)])
    session = copy_session.CopySession(replace(pair.plan(), compression=compression), LIMITS)
    session.open(lambda: True)
    drain(session)
    session.close()
    found = pair.copied()
    assert {message.value() for message in found} == {b"again and " * 200}
    assert len(found) == 50
    assert codecs(estate, pair.copy_topic) == {compression}


def test_another_compression_needs_another_session_and_loses_nothing(pair, start):  # noqa: F811
    plan = pair.plan()
    assert not replace(plan, compression="zstd").same_session(plan)
    assert replace(plan, paused=True, bytes_per_second=5.0).same_session(plan)
    records = numbered(40)
    pair.produce(records[:20])
    thread = start(plan)
    eventually(lambda: len(pair.copied()) == 20, "the first half")
    thread.assign(replace(plan, compression="zstd"), 8)
    pair.produce(records[20:])
    eventually(lambda: len(pair.copied()) >= 40, "the second half")
    eventually(lambda: state(thread).position == 8, "the new desired state is carried out")
    copied_once(pair, 40)


def test_resting_keeps_positions_that_the_target_forgot(pair, monkeypatch):
    pair.produce(numbered(10))
    session = pair.session()
    drain(session)
    pair.forget_positions()
    monkeypatch.setattr(copy_session, "_RENEW_POSITIONS_SECONDS", 0.0)
    monkeypatch.setattr(copy_session, "_SKIPPED_COMMIT_SECONDS", 0.0)
    session.idle()
    kept = session._group_member.committed([TopicPartition(pair.copy_topic, p) for p in range(2)], 15)
    assert [row.offset for row in kept] == [5, 5]
    session.close()


# --- the whole estate


@pytest.mark.nightly
def test_pause_and_resume_on_an_estate(boot_estate):
    estate = boot_estate(PROJECT_ROOT / THREE)
    rest = RestClient(estate.url, estate.token)

    def distributor(cluster, level):
        return rest.ok("GET", f"/trees/main/distributors/{cluster}/{level}")

    def verified(*words):
        ran = estate.treeline("verify", "--stream", STREAM, "--json", *words)
        assert ran.returncode == 0, ran.stdout + ran.stderr

    verified("--records", "100")
    paused = estate.treeline("distributor", "pause", "cluster-1", "2", "--json")
    assert paused.returncode == 0, paused.stderr
    eventually(lambda: distributor("cluster-1", 2)["state"] == "paused", "cluster-1:2 is paused")
    names = rest.ok("GET", "/tenants/acme/instances/retail/environments/prod/streams/orders")["technical_names"]
    held = {cluster: len(read_all(estate.bootstrap_servers(cluster), names[cluster])) for cluster in names}

    def count(cluster):
        return len(read_all(estate.bootstrap_servers(cluster), names[cluster])) - held[cluster]

    offsets = produce_on_each(estate, names, 40)
    # All records of cluster-2 and cluster-3 are everywhere; those of cluster-1 stay there.
    eventually(lambda: [count(cluster) for cluster in sorted(names)] == [120, 80, 80], "the others go on")
    eventually(lambda: (distributor("cluster-1", 2)["lag_records"] or 0) >= 40, "the lag is known")
    traced = rest.ok("GET", f"/trace?cluster=cluster-1&stream={STREAM}&partition=0&offset={offsets['cluster-1']}")
    assert [(row["cluster"], row["reason"]) for row in traced["missing"]] == [
        ("cluster-2", "distributor cluster-1:2 is paused"),
        ("cluster-3", "it comes from cluster-2, which does not have it either"),
    ]
    rest.ok("PATCH", "/trees/main/distributors/cluster-1/2", {"bytes_per_second": 20_000, "compression": "lz4"})
    assert distributor("cluster-1", 2)["paused"]
    assert estate.treeline("distributor", "resume", "cluster-1", "2").returncode == 0
    eventually(lambda: [count(cluster) for cluster in sorted(names)] == [120, 120, 120], "nothing is missing")
    eventually(lambda: distributor("cluster-1", 2)["state"] == "running", "cluster-1:2 runs")
    # The name is the same on all clusters; none of them had such batches before.
    assert "lz4" in codecs(estate, names["cluster-2"])
    verified("--records", "100")


def produce_on_each(estate, names, count):
    """Produce records on every cluster, all in partition 0; return the last one's offset by cluster."""
    last = {}
    for cluster, topic in names.items():
        producer = Producer({"bootstrap.servers": estate.bootstrap_servers(cluster), "enable.idempotence": True})

        def delivered(error, message, cluster=cluster):
            assert error is None
            last[cluster] = message.offset()

        for n in range(count):
            producer.produce(topic, f"{cluster}:{n}".encode(), partition=0, on_delivery=delivered)
        assert producer.flush(30) == 0
    return last
