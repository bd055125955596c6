"""When an event is sent to a webhook's receiver again, and for how long one knows what was sent."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from backend.queries.webhooks import webhook_deliveries as queries
from backend.queries.webhooks.webhook_deliveries import DELIVERED, FAILED, PENDING, webhook_deliveries
from backend.settings import Settings
from tests.support.api.rest import Rest
from tests.support.database.postgres import Database
from workers.webhooks.sending import delay_after

OPS = {"name": "ops", "url": "https://receiver.example/treeline", "events": ["switch"]}


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 10), (2, 20), (3, 40), (9, 2560), (10, 3600), (15, 3600), (16, None)]
)
def test_attempts_are_further_apart_each_time_up_to_an_hour_and_then_over(
    attempt: int, seconds: float | None
) -> None:
    assert delay_after(attempt, Settings(webhook_retry_seconds=10, webhook_attempts=16)) == seconds


def test_what_ended_is_kept_for_30_days_and_what_waits_until_it_ends(rest: Rest, database: Database) -> None:
    assert rest("POST", "/webhooks", OPS).status_code == 201
    # position: (state, when it was queued and when it ended, in days before now)
    sent = {
        1: (DELIVERED, 31, 31),
        2: (DELIVERED, 31, 29),
        3: (FAILED, 40, 31),
        4: (FAILED, 40, 29),
        5: (PENDING, 40, None),
    }

    def before(days: int | None) -> sa.ColumnElement[Any]:
        return sa.literal_column("NULL" if days is None else f"clock_timestamp() - interval '{days} days'")

    with database.engine.begin() as connection:
        for position, (state, queued, ended) in sent.items():
            times = {"queued_at": before(queued), "due_at": before(queued), "ended_at": before(ended)}
            row = {"webhook": "ops", "created": 1, "position": position, "kind": "switch", "attempts": 1}
            connection.execute(sa.insert(webhook_deliveries).values(**row, **times, state=state))
        queries.forget_old(connection)
    left = [each["position"] for each in rest("GET", "/webhooks/ops/deliveries").json()["items"]]
    assert left == [5, 4, 2]
