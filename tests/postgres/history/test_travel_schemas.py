"""Pages of schemas as of an earlier position: versions that had been registered then, of what is there now."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from backend.deciders import TREE
from backend.domain.tree.tree import RecordPrimaryMoved
from backend.registry.records import ConfigSet, Reference, SubjectDeleted
from tests.postgres.schemas.test_schemas_pages import MINE, THEIRS, avro, version, was_read
from tests.support.console.consoles import Console, serve_here
from tests.support.console.visitors import Visitor, head, record, rows, said
from tests.support.database.postgres import Database

SUBJECT = f"/schemas/c1/{MINE}"


@pytest.fixture
def console(database: Database) -> Iterator[Console]:
    with serve_here(database.url, with_schemas=True) as running:
        yield running


def now_ms() -> int:
    return round(time.time() * 1000)


def event(console: Console, name: str) -> int:
    """Cause an event between earlier and later writes; return its position."""
    console.rest.ok("POST", "/tenants", {"name": name})
    position = int(head(console)["position"])
    time.sleep(0.01)  # a record's time has no more than milliseconds
    return position


@pytest.fixture
def steps(acme: Console) -> dict[str, int]:
    """Return positions: before all, after two subjects' first versions, after a second that references one."""
    registry = was_read(acme, "c1")
    catalog = registry.mirror.catalog
    none = event(acme, "before")
    other = "acme-retail-prod-orders-key"
    catalog.apply(version(MINE, 1, 1, avro("id")), at_ms=now_ms())
    catalog.apply(version(other, 1, 2, avro("key", name="Key")), at_ms=now_ms())
    catalog.apply(version(THEIRS, 1, 3, avro("secret")), at_ms=now_ms())
    first = event(acme, "first")
    reference = Reference(name="Key", subject=other, version=1)
    catalog.apply(version(MINE, 2, 4, avro("id", "note?"), reference), at_ms=now_ms())
    catalog.apply(ConfigSet(subject=MINE, fields={"compatibilityLevel": "FULL"}), at_ms=now_ms())
    second = event(acme, "second")
    catalog.apply(SubjectDeleted(subject=THEIRS, version=1), at_ms=now_ms())
    return {"none": none, "first": first, "second": second}


def test_subjects_and_versions_are_those_of_then(acme: Console, steps: dict[str, int]) -> None:
    operator = Visitor(acme, "op", "operator")
    assert set(rows(operator.get("/schemas"), "data-subject")) == {MINE, "acme-retail-prod-orders-key"}
    none = operator.get(f"/schemas?at={steps['none']}")
    assert rows(
        none, "data-subject"
    ) == {} and "No subject that still exists had been registered by then." in said(none)
    first = operator.get(f"/schemas?at={steps['first']}")
    assert rows(first, "data-subject")[MINE] == f"{MINE} acme/retail/prod/orders AVRO 1 1 1"
    assert THEIRS in rows(first, "data-subject"), "it was deleted later"
    second = operator.get(f"/schemas?at={steps['second']}&find=orders-value")
    assert rows(second, "data-subject") == {MINE: f"{MINE} acme/retail/prod/orders AVRO 2 2 4"}
    for page in (none, first, second):
        assert "schemas that had been registered then, of those that clusters hold now" in said(page)
        assert "Register schema version" not in said(page) and 'id="targets"' not in page.text
    assert f'name="at" value="{steps["first"]}"' in first.text


def test_a_subject_is_as_it_was(acme: Console, steps: dict[str, int]) -> None:
    operator = Visitor(acme, "op", "operator")
    assert "note" in operator.get(SUBJECT).text
    page = operator.get(f"{SUBJECT}?at={steps['first']}")
    assert re.findall(r'<li><a href="[^"]*version=(\d)', page.text) == ["1"]
    assert "note" not in said(page) and "Compatibility" not in said(page) and "Register version" not in said(page)
    assert operator.get(f"{SUBJECT}?at={steps['none']}").status_code == 404
    assert operator.get(f"{SUBJECT}?at={steps['first']}&version=2").status_code == 404
    key = "/schemas/c1/acme-retail-prod-orders-key"
    assert "Referenced by" in said(operator.get(f"{key}?at={steps['second']}"))
    assert "Referenced by" not in said(operator.get(f"{key}?at={steps['first']}"))
    assert operator.get(f"{SUBJECT}?at=x").status_code == 422


def test_a_tenant_sees_its_own_of_then(acme: Console, steps: dict[str, int]) -> None:
    member = Visitor(acme, "ada", acme="member")
    page = member.get(f"/schemas?at={steps['second']}")
    # By its own events, and all of them came before the first version.
    assert rows(page, "data-subject") == {} and THEIRS not in page.text
    acme.rest.ok("PATCH", "/tenants/acme/instances/retail/environments/prod", {"margin_seconds": 11})
    page = member.get(f"/schemas?at={head(acme)['position']}")
    assert MINE in rows(page, "data-subject") and "globex" not in page.text


def test_a_primary_of_then_that_is_in_no_tree_any_more_is_told(
    acme: Console, steps: dict[str, int], database: Database
) -> None:
    operator = Visitor(acme, "op", "operator")
    acme.rest.ok("PUT", "/trees/main/primary", {"cluster": "c3", "take_over": True})
    record(database, RecordPrimaryMoved(cluster="c3", previous="c1", skipped_ids=1000), TREE, "tree-main")
    acme.rest.ok("PUT", "/trees/main", {"level": 1, "children": [{"cluster": "c2"}, {"cluster": "c3"}]})
    at = f"/schemas?at={steps['first']}"
    # Who sees the estate may still see what it holds; a tenant has nothing to do with it any more.
    assert MINE in rows(operator.get(at), "data-subject")
    told = "c1 is no longer in the tree: its earlier schemas are unknown"
    page = Visitor(acme, "ada", acme="member").get(at)
    assert page.status_code == 200 and told in said(page) and rows(page, "data-subject") == {}
    acme.rest.ok("DELETE", "/clusters/c1")
    assert acme.registries is not None
    acme.registries.refresh()
    assert "c1 was removed meanwhile, or its schemas have not been read yet" in said(operator.get(at))
    assert operator.get(f"/schemas?at={steps['first']}&cluster=c9").status_code == 404
    assert "there is no tree yet" in said(operator.get("/schemas?at=0"))
