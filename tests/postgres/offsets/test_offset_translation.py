"""The state of the offset translator is shown by GET /offsets, by the page, and by the command."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from backend.eventlog.engine import create_engine
from backend.queries.offsets import offset_translation
from backend.queries.offsets.offset_translation import State, Waiting
from tests.support.api.callers import new_user
from tests.support.api.rest import Rest

SEEN = Waiting(commits={"c1": 12, "c2": 3}, away={"c3": "no answer within 10 s"}, reading=("c2",))


def tell(url: str, state: State, waiting: Waiting | None = None) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        offset_translation.write(connection, state, waiting or Waiting())
    engine.dispose()


def shown(rest: Rest) -> dict[str, Any]:
    found: dict[str, Any] = rest("GET", "/offsets").json()["translation"]
    return found


def test_a_worker_that_never_told_anything_is_missed(tenant: Rest) -> None:
    told = shown(tenant)
    assert (told["state"], told["since"]) == ("not-running", None) and "treeline.offsets" in told["text"]


def test_what_is_waited_for_since_when_and_how_much_waits(tenant: Rest, database) -> None:
    tell(database.url, State.STARTING_SPARK, SEEN)
    first = shown(tenant)
    assert (first["state"], first["waiting_commits"]) == ("starting-spark", 15)
    assert "Spark session is starting" in first["text"] and "15 commits" in first["text"]
    assert "c3 cannot be read: no answer within 10 s" in first["text"]
    assert first["clusters"] == [
        {"cluster": "c1", "waiting_commits": 12, "is_read_to_end": True, "reason": None},
        {"cluster": "c2", "waiting_commits": 3, "is_read_to_end": False, "reason": None},
        {"cluster": "c3", "waiting_commits": 0, "is_read_to_end": True, "reason": "no answer within 10 s"},
    ]
    tell(database.url, State.STARTING_SPARK, SEEN)
    assert shown(tenant)["since"] == first["since"], "it is so since then"
    tell(database.url, State.IDLE)
    last = shown(tenant)
    assert last["since"] > first["since"] and (last["text"], last["waiting_commits"]) == ("", 0)


def test_a_tenant_hears_what_is_waited_for_and_nothing_of_others(tenant: Rest, database) -> None:
    tell(database.url, State.READING_LOGS, SEEN)
    told = shown(new_user(tenant, "mia", acme="member"))
    assert told["state"] == "reading-logs" and "A Spark batch is running" in told["text"]
    assert (told["waiting_commits"], told["clusters"]) == (None, []) and "c3" not in told["text"]


@pytest.mark.parametrize("state", [State.IDLE, State.STARTING_SPARK])
def test_a_worker_that_has_told_nothing_for_long_is_not_running(tenant: Rest, database, state: State) -> None:
    tell(database.url, state)
    engine = create_engine(database.url)
    with engine.begin() as connection:
        long_ago = sa.func.clock_timestamp() - sa.text("interval '1 hour'")
        connection.execute(sa.update(offset_translation.offset_translation).values(told_at=long_ago))
    engine.dispose()
    assert shown(tenant)["state"] == "not-running"
