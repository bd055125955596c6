"""GET /offsets and related routes, on a database filled as workers fill it."""

from __future__ import annotations

from urllib.parse import quote

import pytest
import sqlalchemy as sa

from backend.eventlog.engine import create_engine
from backend.queries.offsets.offset_tables import applied_offsets, group_commits, groups_not_followed
from tests.support.api.rest import Rest, problem

STREAM = "acme/retail/prod/orders"


def commit(cluster, group, partition=0, offset=35):
    return {
        "cluster": cluster,
        "stream": STREAM,
        "partition": partition,
        "group": group,
        "technical_group": f"acme-{group}",
        "committed_offset": offset,
        "committed_at_ms": 1_700_000_060_000,
        "timestamp_ms": 1_700_000_000_000,
        "safe_timestamp_ms": None,
        "vector": {"1": [1, 34]},
        "published_at_ms": 1_700_000_061_000,
    }


def applied(cluster, origin, group, **changes):
    return {
        "cluster": cluster,
        "stream": STREAM,
        "partition": 0,
        "group": group,
        "technical_group": f"acme-retail-{group}",
        "state": "applied",
        "reason": None,
        "origin_cluster": origin,
        "generation": 1,
        "committed_at_ms": 1_700_000_060_000,
        "offset": 11,
        "mode": "exact",
        "re_read_bound": 0,
        "settled": True,
        "applied_at_ms": 1_700_000_062_000,
        **changes,
    }


@pytest.fixture
def seen(tenant: Rest, database) -> Rest:
    engine = create_engine(database.url)
    with engine.begin() as connection:
        rows = [commit(cluster, f"g{n}", p) for cluster in ("c1", "c2") for n in range(3) for p in range(2)]
        connection.execute(sa.insert(group_commits), rows)
        done = [applied("c3", "c1", "g0"), applied("c2", "c1", "g0", state="has-members", reason="at work")]
        done.append(applied("c3", "c1", "g1", committed_at_ms=1_700_000_050_000))
        connection.execute(sa.insert(applied_offsets), done)
        other = {
            "cluster": "c1",
            "technical_group": "x",
            "topic": "t",
            "reason": "no stream",
            "seen_at": sa.func.now(),
        }
        connection.execute(sa.insert(groups_not_followed).values(other))
    engine.dispose()
    return tenant


def test_a_commit_with_where_it_goes_on_elsewhere(seen: Rest):
    (item, second) = seen("GET", "/offsets?cluster=c1&group=g0").json()["items"]
    assert second["elsewhere"] == []
    elsewhere = item.pop("elsewhere")
    assert item == {
        **commit("c1", "g0"), "tenant": "acme", "instance": "retail", "environment": "prod", "stream": "orders",
    }  # fmt: skip
    assert [(row["cluster"], row["state"], row["offset"], row["re_read_bound"]) for row in elsewhere] == [
        ("c2", "has-members", 11, 0),
        ("c3", "applied", 11, 0),
    ]


def test_what_was_done_for_an_earlier_commit_is_said_to_be(seen: Rest):
    (item, _) = seen("GET", "/offsets?cluster=c1&group=g1").json()["items"]
    (row,) = item["elsewhere"]
    assert (row["state"], row["offset"], row["committed_at_ms"]) == ("pending", 11, 1_700_000_050_000)
    assert "has not arrived yet" in row["reason"]


def test_pages_and_filters(seen: Rest):
    everything = seen("GET", "/offsets").json()["items"]
    assert len(everything) == 12
    found, path = [], "/offsets?limit=5"
    while path:
        page = seen("GET", path).json()
        found += page["items"]
        path = page["next_cursor"] and f"/offsets?limit=5&cursor={page['next_cursor']}"
    assert found == everything
    assert {row["group"] for row in seen("GET", "/offsets?group=acme-g2").json()["items"]} == {"g2"}
    assert len(seen("GET", f"/offsets?stream={STREAM}&cluster=c2").json()["items"]) == 6
    nobody = seen("GET", "/offsets?group=nobody").json()
    assert (nobody["items"], nobody["next_cursor"]) == ([], None)
    (row,) = seen("GET", "/offsets/not-followed").json()["items"]
    assert row == {"cluster": "c1", "technical_group": "x", "topic": "t", "reason": "no stream"}


def test_refusals(seen: Rest):
    problem(seen("GET", "/offsets?cluster=c9"), 404, "not-found")
    problem(seen("GET", "/offsets?cursor=bm90aGluZw=="), 422, "value-invalid")
    problem(seen("GET", "/offsets?cursor=IngveSI="), 422, "value-invalid")
    body = {"cluster": "c1", "stream": STREAM, "group": "g0", "to": "earliest"}
    problem(seen("POST", "/offsets/reset", {**body, "cluster": "c9"}), 404, "not-found")
    problem(seen("POST", "/offsets/reset", body), 404, "not-found")
    refused = problem(seen("POST", "/offsets/reset", {**body, "group": "No\tGroup"}), 422, "name-invalid")
    assert refused["errors"][0]["pointer"] == "/group" and "U+0009 at position 3" in refused["detail"]
    refused = problem(seen("GET", "/offsets?group=" + quote("No\u202eGroup")), 422, "name-invalid")
    assert "U+202E at position 3" in refused["detail"]


def test_pages_go_on_behind_a_group_of_any_name(tenant: Rest, database):
    names = ["Büro #1/ost", "a b", "a/b/c", "50% of = it?&", "g"]
    engine = create_engine(database.url)
    with engine.begin() as connection:
        connection.execute(sa.insert(group_commits), [commit("c1", name) for name in names])
    engine.dispose()
    found, path = [], "/offsets?limit=1"
    while path:
        page = tenant("GET", path).json()
        found += [row["group"] for row in page["items"]]
        path = page["next_cursor"] and f"/offsets?limit=1&cursor={page['next_cursor']}"
    assert sorted(found) == sorted(names)
    for name in names:
        (row,) = tenant("GET", f"/offsets?group={quote(name, safe='')}").json()["items"]
        assert row["group"] == name
