"""The number of tasks of a distributor follows the declared partitions, and changes by a barrier."""

from __future__ import annotations

from typing import Any

from backend import deciders
from backend.domain.distribution.leaf import EnterRoutes
from backend.queries.distribution.leaf_routes import get_leaf, why_not_entered
from backend.queries.distribution.partition_buckets import partition_buckets
from tests.support.api.rest import Rest, rest_settings
from tests.support.api.streams import worker_records
from tests.support.database.postgres import Database
from workers.distribution import desired

ENVIRONMENT = "/tenants/acme/instances/retail/environments/prod"


def settings(database: Database, **changes: Any) -> Any:
    return rest_settings(database.url, partition_buckets=2, partitions_per_bucket=10, **changes)


def buckets(database: Database, **changes: Any) -> int:
    with database.engine.connect() as connection:
        return partition_buckets(connection, settings(database, **changes))


def declare(rest: Rest, name: str, partitions: int, **fields: Any) -> None:
    answer = rest("POST", f"{ENVIRONMENT}/streams", {"name": name, "partitions": partitions, **fields})
    assert answer.status_code == 201, answer.text


def enter(rest: Rest, database: Database, count: int) -> None:
    """Record the events of each leaf's barrier."""
    for cluster in ("c1", "c2", "c3"):
        with database.engine.connect() as connection:
            leaf = get_leaf(connection, cluster)
        assert leaf is not None
        command = EnterRoutes(cluster=cluster, routes=leaf.wanted, wanted=leaf.wanted, fenced=9, buckets=count)
        worker_records(rest, command, deciders.LEAF, f"leaf-{cluster}")


def test_partitions_of_distributed_streams_count(tenant: Rest, database: Database) -> None:
    assert buckets(database) == 2
    declare(tenant, "few", 20)
    assert buckets(database) == 2
    declare(tenant, "local", 50, distributed=False)
    assert buckets(database) == 2
    declare(tenant, "more", 1)
    assert buckets(database) == 4
    assert buckets(database, origin_header=False) == 2, "without vectors a task cannot take over from another"


def test_tasks_of_another_number_wait_for_the_barrier(tenant: Rest, database: Database) -> None:
    declare(tenant, "few", 20)
    enter(tenant, database, 2)
    declare(tenant, "more", 1)
    with database.engine.connect() as connection:
        plans = desired.read(connection, settings(database)).plans
        assert {task.bucket for task in plans} == {0, 1, 2, 3}
        for plan in plans.values():
            assert plan.buckets == 4
            # The new tasks know what the former ones had copied.
            former = {group.rpartition(".")[2] for group in plan.inbound_groups}
            assert former >= {"0", "1"}
            why = why_not_entered(connection, plan.target.name, plan.routes_version, plan.buckets)
            assert why is not None and "not with 4" in why
    enter(tenant, database, 4)
    with database.engine.connect() as connection:
        for plan in desired.read(connection, settings(database)).plans.values():
            assert why_not_entered(connection, plan.target.name, plan.routes_version, plan.buckets) is None


def test_the_number_stays_while_streams_come_and_go(tenant: Rest, database: Database) -> None:
    declare(tenant, "few", 20)
    declare(tenant, "more", 1)
    assert buckets(database) == 4
    enter(tenant, database, 4)
    answer = tenant("DELETE", f"{ENVIRONMENT}/streams/more?confirm=acme/retail/prod/more")
    assert answer.status_code in (200, 204), answer.text
    assert buckets(database) == 4
    answer = tenant("DELETE", f"{ENVIRONMENT}/streams/few?confirm=acme/retail/prod/few")
    assert answer.status_code in (200, 204), answer.text
    assert buckets(database) == 2
