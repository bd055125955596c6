"""The form that deletes a stream reports its records, for which real clusters are asked."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from backend.domain.tenants.stream_records import RecordApplied
from tests.support.console.consoles import Console, serve_here
from tests.support.console.visitors import API_PROD, PROD, Visitor, code, hidden, record, rows, said
from tests.support.database.postgres import Database
from tests.support.estate.running import RunningEstate
from tests.support.kafka.topics import create_topic, produce


@dataclass(frozen=True)
class Filled:
    """A stream of acme/retail/prod, and a cluster where its long name has a record and its short one no topic."""

    stream: str
    servers: str

    def applied(self, cluster: str) -> RecordApplied:
        place = {"instance": "retail", "environment": "prod", "stream": self.stream}
        return RecordApplied(**place, cluster=cluster, topic_id="T", replication_factor=1)


@pytest.fixture
def console(database: Database) -> Iterator[Console]:
    """One that waits for clusters as long as it usually does: c1 is there."""
    with serve_here(database.url, probe_timeout_seconds=5) as running:
        yield running


@pytest.fixture
def filled(acme: Console, estate: RunningEstate) -> Filled:
    found = Filled(f"s{secrets.token_hex(4)}", estate.bootstrap_servers("cluster-1"))
    create_topic(found.servers, f"acme-retail-prod-{found.stream}")
    produce(found.servers, f"acme-retail-prod-{found.stream}", [{"value": b"x"}])
    acme.rest.ok("POST", f"{API_PROD}/streams", {"name": found.stream})
    return found


# Records on real clusters: test_rest_brokers; the name that is typed: test_rest_stream_removal and test_undo.
@pytest.mark.nightly
def test_deleting_says_where_records_are_and_then_wants_the_whole_name(
    database: Database, acme: Console, owner: Visitor, filled: Filled
) -> None:
    path, name = f"{PROD}/{filled.stream}/-delete", f"acme/retail/prod/{filled.stream}"
    seen = {"version": hidden(owner.get(path))["version"]}
    assert 'name="confirm"' not in owner.get(path).text
    none = owner.preview(path, **seen)
    assert "It has no topics yet; this cannot be undone" in said(none)
    assert 'name="confirm"' not in none.text
    assert code(none, "same-command") == f"treeline delete stream {name}"
    # A topic that is not recorded yet is asked for its records, too.
    acme.rest.ok("PATCH", "/clusters/c1", {"bootstrap_servers": filled.servers})
    assert "Its topics on 1 cluster are deleted, with all records on c1" in said(owner.preview(path, **seen))
    for cluster in ("c1", "c2"):
        record(database, filled.applied(cluster))
    # Records may have come since a preview said that there are none.
    late = owner.client.post(path, data={**hidden(none), "step": "confirm"})
    assert late.status_code == 409
    assert "has, or may have, records on c1 and c2" in said(late)
    preview = owner.preview(path, **seen)
    assert "Its topics on 2 clusters are deleted, with all records on c1 and c2; this cannot be undone" in said(
        preview
    )
    assert "has records, or could not be checked" in rows(preview, "data-cluster")["c2"]
    assert f"Type {name}" in said(preview)
    assert code(preview, "same-command") == f"treeline delete stream {name} --confirm {name}"
    assert f"?confirm={name}" in code(preview, "same-curl")
    sent = {**hidden(preview), "step": "confirm"}
    for typed in ("", filled.stream, name[:-1]):
        page = owner.client.post(path, data={**sent, "confirm": typed})
        assert page.status_code == 409
        assert ("the confirmation names" if typed else "has, or may have, records on") in said(page)
    answer = owner.client.post(path, data={**sent, "confirm": name})
    assert answer.headers["location"] == PROD
    assert f"{filled.stream} was deleted; its topics are still being removed from c1 and c2" in said(
        owner.get(PROD)
    )


@pytest.mark.nightly  # test_rest_stream_removal and test_rest_brokers
def test_a_stream_whose_topics_are_seen_to_be_empty_is_deleted_without_its_name(
    database: Database, acme: Console, owner: Visitor, filled: Filled
) -> None:
    path = f"{PROD}/{filled.stream}/-delete"
    acme.rest.ok("PATCH", "/clusters/c3", {"bootstrap_servers": filled.servers})
    record(database, filled.applied("c3"))
    preview = owner.preview(path, version=hidden(owner.get(path))["version"])
    assert "Its topics on 1 cluster are deleted, and have no records" in said(preview)
    assert 'name="confirm"' not in preview.text
    assert owner.client.post(path, data={**hidden(preview), "step": "confirm"}).status_code == 303
