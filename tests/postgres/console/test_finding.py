"""The search for groups, topics, subjects and actions, and suggestions for fields: each as permitted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.console.test_find import hits
from tests.postgres.schemas.test_schemas_pages import MINE, THEIRS, avro, version, was_read
from tests.support.console.consoles import Console
from tests.support.console.grouping import group, observed, of_globex, partition, some_groups
from tests.support.console.measuring import measured
from tests.support.console.visitors import Visitor, visitor
from tests.support.database.postgres import Database

PROD = "acme/retail/prod"


def actions(page: Any) -> dict[str, str]:
    """Return the address of each action found, by its label."""
    return {name: address for kind, name, address in hits(page) if kind == "action"}


def names(visited: Visitor, kind: str, typed: str = "", **more: str) -> list[str]:
    answer = visited.client.get("/find/-names", params={"kind": kind, "q": typed, **more})
    assert answer.status_code == 200
    return [each["name"] for each in answer.json()]


def test_an_observed_group_leads_to_its_own_page(acme: Console, database: Database) -> None:
    some_groups(database)
    viewer = visitor(acme, "viewer")
    billing = [("group", "billing", "/groups/-of?cluster=c1&group=acme-retail-prod-billing")]
    assert hits(viewer.get("/find?q=billing")) == billing
    assert hits(viewer.get("/find?q=acme-retail-prod-bill")) == billing, "by its technical name"
    assert viewer.get(billing[0][2]).status_code == 200
    # A name that no format explains is another group on each cluster.
    foreign = {"group": None, "place": None, "technical_group": "importer"}
    for cluster in ("c1", "c2"):
        observed(database, group(cluster=cluster, partitions=(partition(0, stream=None),), **foreign))
    addresses = {address for _, _, address in hits(viewer.get("/find?q=importer"))}
    assert addresses == {f"/groups/-of?cluster={cluster}&group=importer" for cluster in ("c1", "c2")}


def test_a_topic_is_found_by_its_technical_name_and_leads_to_its_stream(acme: Console) -> None:
    viewer = visitor(acme, "viewer")
    page = viewer.get("/find?q=acme-retail-prod-orders")
    assert hits(page) == [("topic", "acme-retail-prod-orders", f"/tenants/{PROD}/orders")]
    assert f"{PROD}/orders on c1, c2" in page.text
    assert hits(viewer.get("/find?q=acme-prod-ord")) == [("topic", "acme-prod-orders", f"/tenants/{PROD}/orders")]


def test_subjects_are_found_and_compared(acme: Console, database: Database) -> None:
    was_read(acme, "c1", version(MINE, 1, 1, avro("id")), version(THEIRS, 1, 2, avro("id")))
    viewer = visitor(acme, "viewer")
    found = hits(viewer.get("/find?q=orders-value"))
    assert found == [("subject", MINE, f"/schemas/c1/{MINE}")]
    assert actions(viewer.get("/find?q=compare items")) == {
        f"Compare versions of {THEIRS}": f"/schemas/c1/{THEIRS}"
    }
    assert actions(Visitor(acme, "ada", acme="member").get("/find?q=compare value")) == {
        f"Compare versions of {MINE}": f"/schemas/c1/{MINE}"
    }


def test_actions_are_offered_to_those_who_may_take_them(acme: Console, database: Database) -> None:
    some_groups(database)
    asked = {
        "plan switch prod": {"operator"},
        "reset billing": {"operator", "owner"},
        "produce orders": {"operator", "owner"},
        "add stream prod": {"operator", "owner", "member"},
        "create user": {"admin"},
        "pause c1": {"operator"},
    }
    for kind in ("viewer", "operator", "owner", "member", "stranger"):
        visited = visitor(acme, kind)
        for typed, allowed in asked.items():
            found = actions(visited.get(f"/find?q={typed}"))
            mine = [label for label in found if "globex" not in label]
            assert bool(mine) == (kind in allowed), (kind, typed, found)


def test_groups_without_a_stream_of_their_own_hide_no_action_for_others(acme: Console, database: Database) -> None:
    idle = [group(f"pay{number}", partitions=()) for number in range(4)]
    observed(database, *idle, group("payments-of-prod"))
    for kind in ("operator", "owner"):
        found = actions(visitor(acme, kind).get("/find?q=reset pay"))
        assert list(found) == ["Reset offsets of payments-of-prod"], kind


def test_an_action_leads_to_its_form_filled_in(acme: Console, database: Database) -> None:
    some_groups(database)
    operator = visitor(acme, "operator")
    page = operator.get(actions(operator.get("/find?q=reset billing"))["Reset offsets of billing"])
    assert f'value="{PROD}/orders"' in page.text and 'value="billing"' in page.text
    page = operator.get(actions(operator.get("/find?q=plan switch acme"))[f"Plan switch of {PROD}"])
    assert f'value="{PROD}"' in page.text and page.status_code == 200


@pytest.mark.parametrize(
    "kind, typed, seen, own",
    [
        ("stream", "prod", [f"{PROD}/orders", "globex/shop/prod/items"], [f"{PROD}/orders"]),
        ("tenant", "", ["acme", "globex"], ["acme"]),
        ("scope", "retail", ["acme/retail", PROD], ["acme/retail", PROD]),
        ("scope", "shop", ["globex/shop", "globex/shop/prod"], []),
        ("cluster", "c", ["c1", "c2", "c3"], []),
        ("group", "st", ["stock"], []),
        ("group", "bill", ["billing"], ["billing"]),
        ("stream", "%", [], []),
        ("stream", "\x00", [f"{PROD}/orders", "globex/shop/prod/items"], [f"{PROD}/orders"]),
    ],
)
def test_suggestions_are_names_that_the_viewer_may_see(
    acme: Console, database: Database, kind: str, typed: str, seen: list[str], own: list[str]
) -> None:
    observed(database, group(), of_globex())
    assert sorted(names(visitor(acme, "viewer"), kind, typed)) == sorted(seen)
    assert sorted(names(visitor(acme, "owner"), kind, typed)) == sorted(own)


def test_series_are_suggested_by_metric(acme: Console, database: Database) -> None:
    lags = {("edge.lag_records", "c1:2"): [1.0], ("group.lag_records", "c1/acme-retail-prod-billing"): [1.0]}
    measured(database, lags)
    observed(database, group())
    viewer, member = visitor(acme, "viewer"), visitor(acme, "member")
    assert names(viewer, "series", "c1", of="edge.lag_records") == ["c1:2"]
    assert names(member, "series", "c1", of="edge.lag_records") == []
    assert names(member, "series", "bill", of="group.lag_records") == ["c1/acme-retail-prod-billing"]


def test_suggestions_are_few_and_of_known_kinds_and_need_a_login(acme: Console) -> None:
    viewer = visitor(acme, "viewer")
    for number in range(25):
        acme.rest.ok("POST", "/tenants", {"name": f"shop{number}"})
    assert len(names(viewer, "tenant", "shop")) == 20
    assert viewer.get("/find/-names?kind=secret").status_code == 422
    viewer.client.cookies.clear()
    assert viewer.get("/find/-names?kind=tenant").status_code == 401
