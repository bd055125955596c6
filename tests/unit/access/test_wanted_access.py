"""The row of an application gives the access that each cluster should have."""

from __future__ import annotations

from dataclasses import replace

from backend.domain.access.access_steps import WantedAccess
from backend.domain.access.acls import acls_of
from backend.queries.tenants.applications import ApplicationRow, ClusterApplied
from workers.access.wanted_access import of_row

NAME = "acme/retail/prod/billing"
PENDING = ClusterApplied("pending", 0, None, {})
ROW = ApplicationRow(
    tenant="acme",
    instance="retail",
    environment="prod",
    name="billing",
    revision=4,
    groups=("g",),
    produces=("acme/retail/prod/out",),
    consumes=("acme/retail/prod/in", "globex/eu/prod/items"),
    producer_bytes_per_second=1000,
    consumer_bytes_per_second=None,
    request_percentage=50,
    credentials=2,
    deleted=False,
    topics={
        "c1": {
            "acme/retail/prod/out": "1-out",
            "acme/retail/prod/in": "1-in",
            "globex/eu/prod/items": "1-items",
        },
        "c2": {"globex/eu/prod/items": "2-items"},
    },
    technical_groups={"c1": ("1-g",), "c2": ("2-g",)},
    applied={"c1": ClusterApplied("applied", 4, None, {"acls": "applied"}), "c2": PENDING},
)


def test_each_cluster_gets_its_technical_names_and_only_of_the_streams_that_it_has() -> None:
    first, second = of_row(ROW)
    assert first == WantedAccess(
        principal=NAME,
        cluster="c1",
        revision=4,
        acls=acls_of(["1-out"], ["1-in", "1-items"], ["1-g"], f"{NAME}/"),
        credentials=2,
        quotas={"producer_byte_rate": 1000.0, "request_percentage": 50.0},
        applied=4,
        parts={"acls": "applied"},
    )
    # Nothing is produced there, so there are no transactions.
    assert second.acls == acls_of([], ["2-items"], ["2-g"], None)
    assert second.applied is None


def test_a_failure_is_not_taken_for_applied() -> None:
    (only,) = of_row(replace(ROW, applied={"c1": ClusterApplied("failed", 4, "refused", {})}))
    assert (only.applied, only.failure) == (None, "refused")


def test_nothing_is_wanted_on_a_cluster_that_left_the_tree_and_may_have_something() -> None:
    there = ClusterApplied("pending", 3, None, {"acls": "applied"})
    left = replace(ROW, applied={"c2": PENDING}, leaving={"c1": there})
    wanted = {each.cluster: each for each in of_row(left)}
    assert wanted["c1"] == WantedAccess(
        principal=NAME, cluster="c1", revision=0, gone=True, left=True, parts={"acls": "applied"}
    )
    assert wanted["c2"] == of_row(ROW)[1]


def test_of_a_deleted_application_nothing_is_wanted_where_something_may_be_left() -> None:
    deleted = replace(ROW, deleted=True, applied={"c2": ClusterApplied("pending", 0, None, {"acls": "applied"})})
    assert of_row(deleted) == [
        WantedAccess(principal=NAME, cluster="c2", revision=0, gone=True, parts={"acls": "applied"})
    ]
