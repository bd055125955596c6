"""A cluster that takes over from a dead primary first takes in what others have of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
import sqlalchemy as sa

from backend.dispatch import Dispatcher
from backend.domain.distribution.edges import Endpoint
from backend.eventlog.held_lock import HeldLock
from backend.eventlog.registry import domain_registry
from backend.projections.catalogue import PROJECTIONS
from backend.queries.schemas.schemas import SchemaLeaf, WantedSchemas, wanted_schemas
from backend.queries.tree.trees import primary_for
from backend.registry.catalog import Catalog
from backend.registry.mirror import Mirror
from backend.registry.records import Noop, Record, Reference
from tests.support.api.rest import rest_on
from tests.support.database.postgres import Database
from tests.support.schemas.addresses import TOPIC
from tests.support.schemas.written_log import WrittenLog, avro, referring
from tests.support.schemas.written_target import (
    FULL,
    ORDERS,
    ORDERS_THERE,
    PAYMENTS,
    PAYMENTS_THERE,
    SHORT,
    STREAMS,
    WrittenTarget,
    read,
    version,
)
from workers import context
from workers.schemas.following import Follower
from workers.schemas.moving import lacking, move

FORMATS = {"dead": FULL, "new": FULL, "other": SHORT}


def endpoint(name: str) -> Endpoint:
    return Endpoint(name=name, number=1, bootstrap_servers="127.0.0.1:9", properties={}, kafka_cluster_id=None)


WANTED = WantedSchemas(
    "dead", None, {name: SchemaLeaf(endpoint(name), of) for name, of in FORMATS.items()}, STREAMS
)


def follower(catalogs: Mapping[str, Catalog]) -> Follower:
    """Return the new primary's follower; nothing of it needs a cluster or a database here."""
    mirrors = {name: Mirror(endpoint(name), TOPIC) for name in FORMATS}
    for name, catalog in catalogs.items():
        mirrors[name].catalog = catalog
    return Follower(sa.create_engine("sqlite://"), mirrors, "new", lambda: None)


def test_what_another_cluster_has_of_the_dead_primary_is_taken_in_under_the_names_of_the_new_one() -> None:
    dead, other = WrittenLog(), WrittenTarget()
    dead.register(PAYMENTS, avro("a", name="Inner"))
    early = read([])
    dead.register(ORDERS, referring("Outer", "Inner"), Reference(name="Inner", subject=PAYMENTS, version=1))
    other.follow(dead.catalog)
    other.strangers(version("theirs", 1, 99, "theirs"))
    assert {ORDERS_THERE, PAYMENTS_THERE, "theirs"} == set(other.catalog.subjects)
    found = lacking(follower({"new": early, "other": other.catalog}), WANTED, "other")
    assert found == [dead.catalog.version((PAYMENTS, 1)), dead.catalog.version((ORDERS, 1))]


def test_what_the_new_one_has_is_left_as_it_is() -> None:
    dead, other, new = WrittenLog(), WrittenTarget(), WrittenLog()
    dead.register(ORDERS, avro("a"))
    other.follow(dead.catalog)
    new.append(version(ORDERS, 1, 7, avro("z")), version("theirs", 1, 1, "theirs"))
    assert lacking(follower({"new": new.catalog, "other": other.catalog}), WANTED, "other") == []


class Written(Follower):
    """A follower of a target whose log is a list."""

    def __init__(self, database: Database, mirrors: Mapping[str, Mirror], target: str) -> None:
        super().__init__(database.engine, mirrors, target, lambda: None)
        self.records: list[Record] = []

    def read_to_end(self, cluster: str) -> None:
        """All of it is known."""

    def append(self, records: Sequence[Record], *held: HeldLock) -> None:
        self.records += records


def test_the_new_primary_leaves_out_ids_that_the_dead_one_may_have_given_unseen(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatcher = Dispatcher(database.engine, domain_registry(), PROJECTIONS)
    monkeypatch.setattr(context, "dispatcher", lambda: dispatcher)
    with rest_on(database.url) as rest, database.engine.connect() as connection:
        rest.grow()
        assert rest("PUT", "/trees/main/primary", {"cluster": "c2", "take_over": True}).status_code == 202
        wanted = wanted_schemas(connection)
    assert wanted is not None
    mirrors = {name: Mirror(leaf.endpoint, TOPIC) for name, leaf in wanted.leaves.items()}
    for name, schema_id in (("c1", 7), ("c2", 5), ("c3", 40)):
        mirrors[name].catalog.apply(version("s", 1, schema_id, "s"))
    target = Written(database, mirrors, "c2")
    move(database.engine, mirrors, target, wanted)
    assert target.records == [Noop(highest_id=40 + 1000)], "above all that was seen on any cluster"
    with database.engine.connect() as connection:
        assert primary_for(connection, "c3") == "c2"
