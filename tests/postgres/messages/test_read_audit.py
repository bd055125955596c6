"""Rows of the audit about reads of messages: what they say, and who sees them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from backend.domain.access.access import Provenance
from backend.domain.names.names import StreamName
from backend.eventlog.provenance import coming_from
from backend.messages.facts import MessageFacts
from backend.messages.read_audit import LONGEST_START, note_read, note_tail
from backend.messages.request import MessageRequest, parse
from backend.queries.access.logins import LoginRow, logins
from tests.support.database.postgres import Database

HERE = Provenance("token ci", "10.0.0.7", "treeline-cli")
FACTS = MessageFacts(
    stream=StreamName("acme", "retail", "prod", "orders"),
    cluster="c1",
    number=1,
    bootstrap_servers="127.0.0.1:9",
    properties={},
    topic="acme-retail-prod-orders",
    incarnation=1,
    partitions=3,
    names={1: "c1"},
    flags_header="copy-flags",
    origin_header="copy-origin",
)


def request(start: str = "", partition: str = "", *filters: str) -> MessageRequest:
    return parse(start=start, partition=partition, limit="", filters=filters)


def rows(database: Database) -> list[LoginRow]:
    with database.engine.connect() as connection:
        return [
            LoginRow(
                row.id,
                row.time,
                row.kind,
                row.user,
                row.reason,
                row.tenant,
                Provenance(row.means, row.address, row.agent),
            )
            for row in connection.execute(sa.select(logins).order_by(logins.c.id))
        ]


def test_a_row_says_who_read_what_and_from_where(database: Database) -> None:
    with coming_from(HERE):
        note_read(database.engine, "ada", FACTS, request())
        note_read(database.engine, "ada", FACTS, request("4711", "2", "key:order-17", "header:trace"))
    first, second = rows(database)
    assert (first.kind, first.user, first.tenant, first.provenance) == ("MessagesRead", "ada", "acme", HERE)
    assert first.reason == "acme/retail/prod/orders on c1, partitions 0 to 2, from latest"
    assert (
        second.reason == "acme/retail/prod/orders on c1, partition 2, filter key:order-17, "
        "filter header:trace, from 4711"
    )


def test_what_a_caller_sends_can_be_stored_and_is_one_line(database: Database) -> None:
    note_read(database.engine, "ada", FACTS, request("", "", "text:a\x00b\nc\u202ed"))
    [row] = rows(database)
    assert row.reason.endswith("filter text:a?b?c?d, from latest")


def test_all_filters_are_in_the_row_and_only_a_long_start_is_cut(database: Database) -> None:
    filters = [f"{number}{'x' * 1999}" for number in range(10)]
    start = "after:" + ",".join(f"{partition}={2**62}" for partition in range(0, 60, 2))
    note_read(database.engine, "ada", replace(FACTS, partitions=64), request(start, "", *filters))
    [row] = rows(database)
    named = ", ".join(str(partition) for partition in range(0, 40, 2))
    said = ", ".join(f"filter {each}" for each in filters)
    cut = f"{start[: LONGEST_START - 1]}…"
    assert row.reason == f"{FACTS.stream} on c1, partitions {named} and 10 more, {said}, from {cut}"


@pytest.mark.parametrize(
    ("start", "partition", "named"),
    [
        ("", "", "partitions 0 to 2"),
        ("", "1", "partition 1"),
        ("after:1=4", "", "partition 1"),
        ("before:1=4,2=4", "", "partitions 1 to 2"),
        ("before:2=4,0=4", "", "partitions 0, 2"),
    ],
)
def test_a_row_names_the_partitions_that_are_read(
    database: Database, start: str, partition: str, named: str
) -> None:
    note_read(database.engine, "ada", FACTS, request(start, partition))
    [row] = rows(database)
    assert row.reason == f"{FACTS.stream} on c1, {named}, from {start or 'latest'}"


def test_a_live_tail_that_is_opened_again_is_one_row(database: Database) -> None:
    with coming_from(HERE):
        for _ in range(3):
            note_tail(database.engine, "ada", FACTS, request())
        note_tail(database.engine, "bob", FACTS, request())
        note_tail(database.engine, "ada", replace(FACTS, cluster="c2"), request())
        note_tail(database.engine, "ada", FACTS, request("", "", "key:x"))
    with coming_from(replace(HERE, address="10.0.0.8")):
        note_tail(database.engine, "ada", FACTS, request())
    assert len(rows(database)) == 5
    assert rows(database)[0].reason == "acme/retail/prod/orders on c1, partitions 0 to 2, from latest, live"


def test_after_an_hour_it_is_another(database: Database) -> None:
    note_tail(database.engine, "ada", FACTS, request())
    with database.owner.begin() as connection:
        connection.execute(sa.text("UPDATE logins SET time = time - interval '61 minutes'"))
    note_tail(database.engine, "ada", FACTS, request())
    note_tail(database.engine, "ada", FACTS, request())
    assert len(rows(database)) == 2
