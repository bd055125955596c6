"""The form that produces a message; what the cluster answers is told to the pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from backend.kafka.search.message_writing import NewMessage, OutcomeUncertain, Written
from backend.messages import production_run
from tests.support.api.streams import applied
from tests.support.console.consoles import Console, serve_here
from tests.support.console.visitors import Visitor, add_clusters, add_tenants, code, hidden, record, said
from tests.support.database.postgres import Database

FORM = "/tenants/acme/retail/prod/orders/-messages/-produce"
FIELDS = {
    "cluster": "c1",
    "partition": "",
    "key_format": "none",
    "message_key": "",
    "value_format": "json",
    "value": '{"n": 12345678901234567.89, "n": 1e999}',
    "headers": "",
}


@pytest.fixture
def owner(database: Database) -> Iterator[Visitor]:
    """Yield an owner of acme, whose orders have a topic on c1."""
    with serve_here(database.url) as console:
        yield _owner(console, database)


def _owner(console: Console, database: Database) -> Visitor:
    add_clusters(console)
    add_tenants(console)
    record(database, applied("c1"))
    return Visitor(console, "ada", acme="owner")


def test_an_empty_key_is_none_unless_a_format_is_chosen(owner: Visitor) -> None:
    page = owner.get(FORM).text
    assert '<option value="none" selected>No key</option>' in page
    assert said(owner.preview(FORM, **FIELDS)).count("Key none") == 1
    for form in ("text", "json", "base64"):
        wrong = owner.send(FORM, step="preview", **{**FIELDS, "key_format": form})
        assert wrong.status_code == 422 and "it is empty: write a key, or choose No key" in said(wrong)


def test_json_is_checked_and_kept(owner: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[NewMessage] = []

    def write(_: Any, message: NewMessage) -> Written:
        written.append(message)
        return Written(2, 7, 1)

    monkeypatch.setattr(production_run, "write_message", write)
    assert FIELDS["value"] in code(owner.preview(FORM, **FIELDS), "same-command")
    done = owner.confirm(FORM, **FIELDS)
    assert [each.value for each in written] == [FIELDS["value"].encode()]
    assert "partition 2 of orders on c1, at offset 7" in said(owner.get(done.headers["location"]))
    wrong = owner.send(FORM, step="preview", **{**FIELDS, "value": "[NaN]"})
    assert wrong.status_code == 422 and "it is not JSON" in said(wrong)


def test_a_message_that_was_not_confirmed_is_not_written_again(
    owner: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Any] = []

    def write(*given: Any) -> Written:
        written.append(given)
        raise OutcomeUncertain("no answer within 10 s")

    monkeypatch.setattr(production_run, "write_message", write)
    sent = hidden(owner.preview(FORM, **FIELDS))
    for _ in range(2):
        done = owner.client.post(FORM, data={**sent, "step": "confirm"})
        assert (done.status_code, len(written)) == (303, 1)
        page = said(owner.get(done.headers["location"]))
        assert "c1 did not confirm the message in time. It may have been written" in page
        assert "Trace on all clusters" not in page
