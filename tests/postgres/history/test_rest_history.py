"""`GET /history` and `treeline history`: points, marks, rights, and what is refused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from backend.domain.history.metrics import METRICS
from backend.domain.offsets.observed_group import GroupPartition, is_own
from backend.queries.history import measures
from backend.queries.offsets.group_store import store_groups
from backend.queries.offsets.observed_groups import GroupRow, group_row, seen_by
from tests.postgres.history.sampling import GROUP_LAG, LAG, sample_all
from tests.support.api.callers import new_user
from tests.support.api.rest import Rest, problem
from tests.support.api.shell import Shell, shell_of
from tests.support.console.switching import COMPLETED, commands
from tests.support.database.postgres import Database

MINUTE = 60_000
GROUPS = ("c1/acme-retail-prod-billing", "c1/reporting", "c1/both", "c1/globex-audit")


def partition(tenant: str, stream: str = "orders") -> GroupPartition:
    name = f"{tenant}/retail/prod/{stream}"
    return GroupPartition(topic=name.replace("/", "-"), stream=name, partition=0, lag_records=1)


def group(name: str, place: str | None, *tenants: str) -> GroupRow:
    """Return a group on c1 that reads a stream of each of these tenants."""
    return group_row(
        cluster="c1",
        technical_group=name.partition("/")[2],
        group=None,
        place=place,
        state="Empty",
        protocol="none",
        members=(),
        partitions=[partition(each) for each in tenants],
        observed_at=datetime.now(UTC),
    )


@pytest.fixture
def sampled(both: Rest, database: Database) -> Rest:
    """Return the API with samples of a minute ago, of an edge and of groups of two tenants."""
    billing, reporting, shared, audit = GROUPS
    rows = [
        group(billing, "acme/retail/prod", "acme", "globex"),
        group(reporting, None, "acme"),
        group(shared, None, "acme", "globex"),
        group(audit, None, "globex"),
    ]
    values = {(LAG, "c1:2"): 12.5} | {(GROUP_LAG, each): 7.0 for each in GROUPS}
    at = datetime.fromtimestamp(time.time() // 60 * 60 - 60, UTC)
    with database.engine.begin() as connection:
        store_groups(connection, "c1", rows, datetime.now(UTC))
    sample_all(database, at, values)
    return both


def read(rest: Rest, metric: str, subject: str, **more: Any) -> Any:
    asked = "&".join(f"{name}={value}" for name, value in {"metric": metric, "subject": subject, **more}.items())
    return rest("GET", f"/history?{asked}")


def values(rest: Rest, metric: str, subject: str, **more: Any) -> list[float]:
    answer = read(rest, metric, subject, **more)
    assert answer.status_code == 200, answer.text
    return [value for _, value in answer.json()["points"] if value is not None]


def subjects(rest: Rest, metric: str) -> list[str]:
    answer = rest("GET", f"/history/subjects?metric={metric}")
    assert answer.status_code == 200, answer.text
    return [each["subject"] for each in answer.json()["items"]]


def test_the_last_hour_is_shown_with_what_happened(sampled: Rest, database: Database) -> None:
    commands(database, *COMPLETED)
    found = read(sampled, LAG, "c1:2").json()
    assert (found["metric"], found["subject"], found["step_ms"]) == (LAG, "c1:2", MINUTE)
    assert len(found["points"]) in (60, 61) and found["points"][1][0] - found["points"][0][0] == MINUTE
    assert [value for _, value in found["points"] if value is not None] == [12.5]
    texts = [each["text"] for each in found["marks"]]
    assert texts == ["Tree changed: 3 clusters", "Switch 1 · c1 → c2 started", "Switch 1 · c1 → c2 completed"]
    assert set(found["marks"][0]) == {"position", "time", "text", "name"}
    datetime.fromisoformat(found["marks"][0]["time"])
    assert values(sampled, "switch.hold_ms", "all") == [812]
    # Times are also taken as ISO 8601, without a zone as UTC, and steps by ten minutes and days.
    now = datetime.now(UTC)
    for text in (now.strftime("%Y-%m-%dT%H:%M:%SZ"), now.strftime("%Y-%m-%dT%H:%M:%S")):
        assert values(sampled, LAG, "c1:2", to=text, step_ms=600_000) == [12.5]
    assert values(sampled, LAG, "c1:2", to=round(1000 * now.timestamp()) - 30 * MINUTE) == []
    week = read(sampled, LAG, "c1:2", **{"from": round(1000 * now.timestamp()) - 7 * 1440 * MINUTE}).json()
    assert week["step_ms"] == 60 * MINUTE and 12.5 in [value for _, value in week["points"]]


def test_subjects_are_those_with_a_history_and_one_without_has_no_values_yet(sampled: Rest) -> None:
    assert subjects(sampled, LAG) == ["c1:2"]
    assert subjects(sampled, GROUP_LAG) == sorted(GROUPS)
    assert subjects(sampled, "switch.hold_ms") == ["all"]
    for metric, subject in (
        (LAG, "c2:1"),
        ("cluster.bytes_in_per_second", "c1"),
        ("zones.cross_zone_bytes", "all"),
        ("group.records_per_second", "c1/both"),
        ("switch.hold_ms", "all"),
    ):
        assert values(sampled, metric, subject) == []
    for metric, subject in (
        (LAG, "c2:7"),
        (LAG, "c9:1"),
        (LAG, "x"),
        (GROUP_LAG, "c1/nobody"),
        (GROUP_LAG, "c1"),
        ("cluster.bytes_in_per_second", "c9"),
        ("broker.bytes", "c1"),
        ("switch.hold_ms", "c1"),
        ("zones.cross_zone_bytes", "az1>az2"),
    ):
        found = problem(read(sampled, metric, subject), 404, "not-found")
        assert METRICS[metric].subject in found["detail"] and "GET /history/subjects" in found["detail"]


def test_a_tenant_reads_its_own_groups_alone(sampled: Rest, database: Database) -> None:
    commands(database, *COMPLETED)
    ada = new_user(sampled, "ada", acme="member")
    bob = new_user(sampled, "bob", globex="owner")
    eve = new_user(sampled, "eve", role="viewer")
    billing, reporting, shared, audit = GROUPS
    # A sum over streams of two tenants is for the tenant whose group it is, if it is one's.
    assert (subjects(ada, GROUP_LAG), subjects(bob, GROUP_LAG)) == ([billing, reporting], [audit])
    assert subjects(eve, GROUP_LAG) == sorted(GROUPS)
    for caller, seen, hidden in ((ada, [billing, reporting], [shared, audit]), (bob, [audit], [billing, shared])):
        for each in seen:
            assert values(caller, GROUP_LAG, each) == [7]
        for each in hidden:
            for metric in (GROUP_LAG, "group.records_per_second"):
                theirs = problem(read(caller, metric, each), 404, "not-found")["detail"]
                nobodys = problem(read(caller, metric, "c1/nobody"), 404, "not-found")["detail"]
                assert theirs.replace(each, "") == nobodys.replace("c1/nobody", "")
        for path in (f"/history?metric={LAG}&subject=c1:2", f"/history/subjects?metric={LAG}"):
            problem(caller("GET", path), 403, "not-allowed")
    texts = [each["text"] for each in read(ada, GROUP_LAG, billing).json()["marks"]]
    assert texts == ["Switch c1 → c2 started", "Switch c1 → c2 completed"]
    assert read(bob, GROUP_LAG, audit).json()["marks"] == []
    assert values(eve, LAG, "c1:2") == [12.5]


def test_tenants_read_the_history_of_groups_of_which_they_see_everything(both: Rest, database: Database) -> None:
    no_stream = GroupPartition(topic="audit.internal", partition=0, lag_records=9000)
    readers = {"mine": ["acme"], "theirs": ["globex"], "both": ["acme", "globex"], "none": []}
    places = {"p": "acme/retail/prod", "q": "globex/shop/prod", "n": None}
    rows = [
        group(f"c1/{reader}-{name}", place, *streams)
        for reader, streams in readers.items()
        for name, place in places.items()
    ]
    rows += [
        replace(
            row,
            technical_group=f"{row.technical_group}-and-more",
            partitions=[*row.partitions, no_stream],
            partition_count=row.partition_count + 1,
        )
        for row in rows
    ]
    with database.engine.begin() as connection:
        store_groups(connection, "c1", rows, datetime.now(UTC))
    at = datetime.fromtimestamp(time.time() // 60 * 60 - 60, UTC)
    sample_all(database, at, {(GROUP_LAG, f"c1/{row.technical_group}"): 7.0 for row in rows})
    for tenants in ({"acme"}, {"globex"}, {"acme", "globex"}, {"initech"}, set[str]()):
        # Of groups of other tenants there is none, whatever they read at present.
        whole = [
            f"c1/{row.technical_group}"
            for row in rows
            if (view := seen_by(row, tenants)) is not None
            and view.partition_count == row.partition_count
            and (is_own(row.place, tenants) or tenants.issuperset(row.tenants))
        ]
        with database.engine.connect() as connection:
            assert measures.list_subjects(connection, GROUP_LAG, tenants) == sorted(whole), tenants
            every = [f"c1/{row.technical_group}" for row in rows]
            assert sorted(measures.groups_with_history(connection, GROUP_LAG, every, tenants)) == sorted(whole)
            for row in rows:
                subject = f"c1/{row.technical_group}"
                for metric in (GROUP_LAG, "group.records_per_second"):
                    assert measures.has_subject(connection, metric, subject, tenants) == (subject in whole)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("metric=edge.lag&subject=c1:2", "known metrics: edge.records_per_second"),
        ("metric=edge.lag_records", "subject"),
        ("subject=c1:2", "metric"),
        ("metric=edge.lag_records&subject=c1:2&from=yesterday", "milliseconds since 1970 or as ISO 8601"),
        ("metric=edge.lag_records&subject=c1:2&to=-1", "milliseconds since 1970 or as ISO 8601"),
        ("metric=edge.lag_records&subject=c1:2&to=99999999999999999999", "milliseconds since 1970"),
        ("metric=edge.lag_records&subject=c1:2&to=0", "`from` must be before `to`"),
        ("metric=edge.lag_records&subject=c1:2&from=2&to=1", "`from` must be before `to`"),
        ("metric=edge.lag_records&subject=c1:2&step_ms=1000", "a multiple of 60,000"),
        ("metric=edge.lag_records&subject=c1:2&step_ms=x", "step_ms"),
        ("metric=edge.lag_records&subject=c1:2&from=0&step_ms=600000", "choose a step_ms of at least"),
        ("metric=edge.lag_records&subject=c1:2&from=0&step_ms=60000", "or a later `from`"),
        ("metric=edge.lag_records&subject=c1:2&step=60000", "unknown query parameter 'step'"),
        ("metric=edge.lag_records&subject=" + "x" * 601, "subject"),
        ("metric=edge.lag_records&subject=c1%00", "subject"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_to_do(sampled: Rest, query: str, said: str) -> None:
    answer = sampled("GET", f"/history?{query}")
    assert answer.status_code == 422 and said in answer.text, answer.text


@pytest.fixture
def shell(sampled: Rest, database: Database, tmp_path: Path) -> Iterator[Shell]:
    with shell_of(database.url, tmp_path) as found:
        yield found


def test_the_command_shows_bars_and_lists_subjects(shell: Shell) -> None:
    shown = shell("history", LAG, "c1:2")
    assert shown.exit_code == 0, shown.stderr
    [line] = [each for each in shown.stdout.splitlines() if "12.5" in each]
    assert "█" * 30 in line and "Tree changed" in shown.stderr
    found = shell.json("history", LAG, "c1:2", "--hours", "24", "--step-ms", "600000")
    assert found["step_ms"] == 600_000 and len(found["points"]) in (144, 145)
    assert [each["subject"] for each in shell.json("history", GROUP_LAG)["items"]] == sorted(GROUPS)
    assert "No subject has a history yet" in shell("history", "broker.bytes").stderr
    since = shell.json("history", LAG, "c1:2", "--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T00:05:00Z")
    assert len(since["points"]) == 1
    for words, code, said in (
        ((LAG, "c1:2", "--hours", "1", "--to", "2026-01-01T00:00:00Z"), 2, "--hours excludes"),
        (("edge.lag", "c1:2"), 2, "known metrics"),
        ((LAG, "c9:2"), 1, "has no subject"),
    ):
        ended = shell("history", *words)
        assert (ended.exit_code, said in ended.stderr) == (code, True), ended.stderr
