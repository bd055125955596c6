"""The way from a group's commit on one cluster to its progress on every cluster of the tree."""

from __future__ import annotations

import secrets

import pytest
import sqlalchemy as sa
from confluent_kafka import Consumer, TopicPartition

from backend.domain.offsets import offset_map
from backend.domain.offsets.offset_map import GroupPartition, Progress
from backend.domain.records import copy_flags
from backend.eventlog.engine import create_engine
from backend.kafka.groups.map_topic import MapPublisher
from backend.queries.offsets.offset_tables import group_commits, groups_not_followed
from backend.settings import Settings
from spark import micro_batch
from tests.eventually import eventually
from tests.faults.runs import Place
from tests.support.api.rest_client import RestClient
from tests.support.kafka.topics import produce, read_all
from workers import batch_exclusion
from workers.offsets.applied import LostOffsets
from workers.offsets.batch import AskedLog
from workers.offsets.directory import Directories
from workers.offsets.store import MapEntry
from workers.offsets.translator import Translator

PROD = "/tenants/acme/instances/retail/environments/prod"


@pytest.fixture
def stream(estate):
    """Create a stream for the test on every cluster; returns (its name, technical names)."""
    rest, name = RestClient(estate.url, estate.token), f"o{secrets.token_hex(4)}"
    rest.ok("POST", f"{PROD}/streams", {"name": name, "partitions": 2})
    path = f"{PROD}/streams/{name}"
    eventually(lambda: set(rest.ok("GET", path)["applied"].values()) == {"applied"}, "it is everywhere")
    yield name, rest.ok("GET", path)["technical_names"]
    rest("DELETE", f"{path}?confirm=acme/retail/prod/{name}")


@pytest.fixture
def translator(spark, estate):
    place = Place(estate)
    settings = Settings(database_url=place.database_url())
    engine = create_engine(settings.database_url)
    found = Translator(engine, settings, Directories(engine), lambda: spark, LostOffsets())
    yield found
    found.close()
    engine.dispose()


def commit(servers, group, topic, offsets):
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, p, at) for p, at in offsets.items()], asynchronous=False)
    consumer.close()


def published(servers, topic, stream):
    """Read the progress that a cluster knows: (partition, group, origin cluster) -> (progress, copy flags)."""
    found = {}
    for message in read_all(servers, topic):
        try:
            whose, cluster = offset_map.decode_key(message.key())
        except offset_map.MapInvalid:
            continue  # garbage that another test put there
        flags, _ = copy_flags.decode([v for name, v in message.headers() or () if name == "copy-flags"])
        if whose.stream == stream:
            found[whose.partition, whose.group, cluster] = (offset_map.decode_value(message.value()), flags)
    return found


def test_progress_is_known_on_every_cluster_with_the_flags_of_its_way(translator, estate, stream):
    name, topics = stream
    servers = {cluster: estate.bootstrap_servers(cluster) for cluster in topics}
    for cluster in ("cluster-1", "cluster-4"):
        produce(servers[cluster], topics[cluster], [{"value": b"x", "partition": n % 2} for n in range(200)])
    eventually(lambda: len(read_all(servers["cluster-1"], topics["cluster-1"])) == 400, "cluster-1 has all", 0.5)
    records = [m for m in read_all(servers["cluster-1"], topics["cluster-1"]) if m.partition() == 1]
    at = records[120].offset()
    commit(servers["cluster-1"], "acme-retail-prod-app", topics["cluster-1"], {1: at})
    commit(servers["cluster-1"], "a-stranger", topics["cluster-1"], {0: 5})
    where = translator._settings.offsets_topic
    key = (1, "app", "cluster-1")

    def everywhere():
        translator.tick()
        found = {cluster: published(servers[cluster], where, name).get(key) for cluster in servers}
        return found if all(found.values()) else None

    found = eventually(everywhere, "progress is known everywhere", 0.2)
    assert {cluster: flags for cluster, (_, flags) in found.items()} == {
        "cluster-1": 0, "cluster-2": 2, "cluster-3": 3, "cluster-4": 4, "cluster-5": 5,
    }  # fmt: skip
    (progress,) = {str(each): each for each, _ in found.values()}.values()
    times = [record.timestamp()[1] for record in records]
    assert progress.offset == at
    assert progress.timestamp_ms == min(times[119], *times[120:]) - 60_000, "the margin is taken off once"
    own = sum(not any(name == "copy-origin" for name, _ in m.headers() or ()) for m in records[:120])
    assert set(progress.vector) == {1} | ({4} if own < 120 else set())
    with translator._engine.connect() as connection:
        rows = connection.execute(sa.select(group_commits).where(group_commits.c.group == "app")).all()
        others = connection.execute(
            sa.select(groups_not_followed.c.reason).where(groups_not_followed.c.technical_group == "a-stranger")
        ).scalars()
        assert [row.committed_offset for row in rows if row.stream.endswith(name)] == [at]
        assert "in acme/retail/prod, the environment of" in "".join(others)


@pytest.mark.nightly
def test_nothing_runs_on_spark_while_nothing_is_committed(translator, estate, stream, monkeypatch):
    """Other tests' groups may commit meanwhile, so that only their offsets may be requested."""
    eventually(lambda: translator.tick() == 0, "all that there is is translated")
    ready, spark, are_commits = translator._logs.ready, translator._spark, []

    def looked():
        found, groups = ready(), translator._directories.read().groups
        those = [groups[cluster].group_partition(*_place(key)) for cluster, made in found.items() for key in made]
        are_commits.append(any(isinstance(whose, GroupPartition) for whose in those))
        return found

    def asked():
        assert are_commits[-1], "a Spark job without a commit of anybody's"
        return spark()

    monkeypatch.setattr(translator._logs, "ready", looked)
    monkeypatch.setattr(translator, "_spark", asked)
    # Positions of distributors change meanwhile, in the same topic.
    verified = estate.treeline("verify", "--records", "50")
    assert verified.returncode == 0, verified.stderr

    def quiet():
        translator.tick()
        return are_commits.count(False) >= 10

    eventually(quiet, "it has looked ten times while nobody had committed", 0)


def _place(key):
    return key.group, key.topic, key.partition


@pytest.fixture
def logs(estate, stream):
    """Provide logs of two partitions, the second of which has no topic."""
    name, topics = stream
    produce(estate.bootstrap_servers("cluster-1"), topics["cluster-1"], [{"value": b"x", "partition": 0}] * 20)
    found = []
    for partition, topic in ((0, topics["cluster-1"]), (1, "there-is-none")):
        place = ("cluster-1", f"acme/retail/prod/{name}", partition)
        one = AskedLog(log=place, topic=topic, incarnations=((0, 1),), asked={10}, low=0, end=20)
        one.make_plan(10**6)
        found.append(one)
    return found


@pytest.mark.nightly  # a topic that is not there is waited for, twice
def test_a_log_that_cannot_be_read_leaves_out_itself_alone(translator, logs):
    known = translator._directories.read()
    assert set(translator._answers(logs, known)) == {(logs[0].log, 10)}
    assert [translator._failures.waits(one.log) for one in logs] == [False, True]


@pytest.mark.nightly  # the topic is waited for here, too
def test_a_batch_that_fails_is_not_tried_in_parts_while_a_switch_waits_for_its_end(translator, logs, monkeypatch):
    known, tried, run = translator._directories.read(), [], micro_batch.run

    def counted(*args):
        tried.append(args)
        return run(*args)

    monkeypatch.setattr(micro_batch, "run", counted)
    monkeypatch.setattr(batch_exclusion, "must_rest", lambda connection: len(tried) > 0)
    assert (translator._answers(logs, known), len(tried)) == ({}, 1)
    assert not any(translator._failures.waits(one.log) for one in logs), "which of them failed is not known yet"


@pytest.mark.nightly  # test_offset_map takes a cluster out of the map
def test_what_was_made_on_a_cluster_that_has_left_the_tree_leaves_the_map(translator, estate, stream):
    name, topics = stream
    servers = {cluster: estate.bootstrap_servers(cluster) for cluster in topics}
    known, where = translator._directories.read(), translator._settings.offsets_topic
    whose = GroupPartition(
        tenant="acme", instance="retail", environment="prod", stream=name, partition=0, group="app"
    )
    old = Progress(timestamp_ms=1, committed_at_ms=1, generation=1, vector={}, offset=1)
    publisher = MapPublisher({"bootstrap.servers": servers["cluster-2"]}, "cluster-9", where)
    publisher.publish([(whose, old)])
    publisher.close()
    key = (0, "app", "cluster-9")

    def said(cluster):
        return published(servers[cluster], where, name).get(key, (None, None))[0]

    eventually(lambda: all(said(cluster) == old for cluster in servers), "it is known everywhere", 0.3)
    row = MapEntry(cluster="cluster-9", group_partition=whose, technical_group="acme-app", is_ended=False)
    translator._logs.follow(known)
    assert translator._results.remove_progress("cluster-9", [row], known)
    eventually(lambda: all(said(cluster) is None for cluster in servers), "one of the others has told", 0.3)
