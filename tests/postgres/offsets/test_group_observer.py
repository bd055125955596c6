"""The observer of groups without a cluster that answers, and the names that it reads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from sqlalchemy import Connection

from backend.deciders import CLUSTER
from backend.domain.clusters.cluster import RecordOnline
from backend.queries.clusters.clusters import find_cluster
from backend.queries.offsets import group_store
from backend.queries.offsets.observed_groups import GroupsWanted, list_observations, list_summaries
from tests.eventually import eventually
from tests.support.api.observed_groups import AT, observed, partition
from tests.support.api.rest import rest_settings
from tests.support.console.visitors import record
from tests.support.database.postgres import Database
from workers import cluster_watch
from workers.offsets import group_observer
from workers.offsets.group_names import GroupNames, read_names
from workers.offsets.group_observer import ClusterGroupsWatch, GroupObserver


@pytest.fixture
def observer(database: Database) -> GroupObserver:
    return GroupObserver(database.engine, rest_settings(database.url))


@pytest.mark.usefixtures("tenant")
def test_a_cluster_that_does_not_answer_keeps_its_groups_and_gets_a_reason(
    database: Database, observer: GroupObserver
) -> None:
    with database.engine.begin() as connection:
        group_store.store_groups(connection, "c1", [observed("g", partition())], AT)
        group_store.store_groups(connection, "removed", [observed("g", partition(), cluster="removed")], AT)
    record(database, RecordOnline(kafka_cluster_id="id-1", brokers=1), CLUSTER, "cluster-c1")

    def reason() -> str | None:
        observer.tick()
        with database.engine.connect() as connection:
            return next(row.reason for row in list_observations(connection) if row.cluster == "c1")

    assert "no broker answers" in str(eventually(reason, "the observation of c1 fails"))
    with database.engine.connect() as connection:
        rows = list_summaries(connection, GroupsWanted(limit=9))
        observations = list_observations(connection)
    assert [(row.cluster, row.group, row.observed_at) for row in rows] == [("c1", "g", AT)]
    assert [row.cluster for row in observations] == ["c1"], "clusters that are offline, or gone, are not observed"


@pytest.mark.usefixtures("both")
def test_names_are_those_of_streams_and_environments_of_the_clusters_tree(database: Database) -> None:
    with database.engine.connect() as connection:
        names = read_names(connection)
    assert sorted(names) == ["c1", "c2", "c3"]
    assert sorted(names["c1"].streams.values()) == ["acme/retail/prod/orders", "globex/retail/prod/items"]
    assert names["c1"].places.read("globex-retail-prod-g", ()) == ("globex/retail/prod", "g")


@pytest.mark.usefixtures("both")
def test_clusters_with_the_same_formats_share_their_names(database: Database) -> None:
    with database.engine.connect() as connection:
        names = read_names(connection)
    assert names["c1"].streams is names["c2"].streams and names["c1"].places is names["c2"].places


@pytest.mark.usefixtures("tenant")
def test_names_are_read_in_a_thread_of_their_own(observer: GroupObserver, monkeypatch: pytest.MonkeyPatch) -> None:
    readers: list[threading.Thread] = []

    def read(connection: Connection) -> dict[str, GroupNames]:
        readers.append(threading.current_thread())
        return read_names(connection)

    monkeypatch.setattr(group_observer, "read_names", read)
    observer.tick()
    eventually(lambda: readers, "the names are read")
    assert threading.current_thread() not in readers


class AtOnce:
    """A thread whose work is done when it has begun."""

    def __init__(self, *_: object) -> None:
        pass

    def begin(self, work: Callable[[], None]) -> bool:
        work()
        return True


@pytest.mark.usefixtures("tenant")
def test_a_cluster_rests_twenty_times_as_long_as_its_observation_took_of_a_processor(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.engine.connect() as connection:
        row = find_cluster(connection, "c1")
    clock = SimpleNamespace(now=0.0, used=0.0)
    observed_at: list[float] = []

    def observe(_: ClusterGroupsWatch) -> None:
        observed_at.append(clock.now)
        clock.used += 2.0

    times = SimpleNamespace(monotonic=lambda: clock.now, thread_time=lambda: clock.used)
    monkeypatch.setattr(cluster_watch, "OneThread", AtOnce)
    monkeypatch.setattr(cluster_watch, "time", times)
    monkeypatch.setattr(ClusterGroupsWatch, "observe", observe)
    monkeypatch.setattr(ClusterGroupsWatch, "store", lambda _: None)
    watch = ClusterGroupsWatch(row, database.engine, rest_settings(database.url))
    for clock.now in (1_000.0, 1_020.0, 1_039.0, 1_041.0, 1_080.0, 1_082.0):
        watch.begin_if_due()
    assert observed_at == [1_000.0, 1_041.0, 1_082.0]
