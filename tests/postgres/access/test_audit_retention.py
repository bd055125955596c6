"""Logins and sources of events are deleted when they are too old, even without new logins."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from backend.domain.access.access import Provenance
from backend.eventlog.provenance import event_provenance
from backend.queries.access import logins
from backend.queries.access.logins import LoginKind
from backend.settings import PROJECT_ROOT
from tests.support.api.rest import SECRETS_KEY, rest_settings
from tests.support.database.postgres import Database
from workers.distribution import audit_retention
from workers.distribution.audit_retention import AuditRetention

HERE = Provenance("", "10.0.0.7", "a browser")


def fill(database: Database, days: int, many: int) -> None:
    """Insert this many of each, of this age."""
    time = datetime.now(UTC) - timedelta(days=days)
    with database.engine.begin() as connection:
        head = connection.execute(sa.select(sa.func.max(event_provenance.c.position))).scalar() or 0
        for n in range(many):
            row = logins.record(connection, LoginKind.IN, "ada", "password", HERE)
            connection.execute(sa.update(logins.logins).where(logins.logins.c.id == row).values(time=time))
            said = {"means": "", "address": HERE.address, "agent": ""}
            connection.execute(sa.insert(event_provenance).values(position=head + n + 1, time=time, **said))


def left(database: Database) -> list[int]:
    with database.engine.connect() as connection:
        counts = (sa.select(sa.func.count()).select_from(table) for table in (logins.logins, event_provenance))
        return [connection.execute(count).scalar_one() for count in counts]


def test_what_is_too_old_goes_in_pieces_and_then_each_hour(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "FORGOTTEN_AT_ONCE", 2)
    fill(database, 31, 5)
    fill(database, 29, 1)
    worker = AuditRetention(database.engine, rest_settings(database.url, audit_days=30))
    for rest in (4, 2, 1):
        worker.tick()
        assert left(database) == [rest, rest]
    fill(database, 31, 1)
    worker.tick()
    assert left(database) == [2, 2]
    monkeypatch.setattr(audit_retention, "EVERY_SECONDS", 0.0)
    again = AuditRetention(database.engine, rest_settings(database.url, audit_days=30))
    again.tick()
    assert left(database) == [1, 1]
    fill(database, 31, 1)
    again.tick()
    assert left(database) == [1, 1]


def test_the_reconcile_loop_does_it(database: Database) -> None:
    fill(database, 31, 1)
    told = {
        "DATABASE_URL": database.url,
        "SECRETS_KEY": SECRETS_KEY,
        "CELERY_BROKER_URL": "memory://",
        "AUDIT_DAYS": "30",
    }
    environment = os.environ | {f"TREELINE_{name}": value for name, value in told.items()}
    program = "from workers.app import reconcile; reconcile()"
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT_ROOT, env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert left(database) == [0, 0]
