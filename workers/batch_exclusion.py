"""Mutual exclusion of Spark batches and held clients: on a single machine, either needs all of it.

A switch announces that it is about to hold; from then on no batch starts, and the switch waits for a running one.
Both check in that order, so that neither overlooks the other. A dead process blocks no one: the lock ends with its
connection, and a switch that is not continued for a moment blocks for no longer than that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy import Connection, Engine

from backend.domain.switch.cluster_switch import HELD
from backend.queries.switch import switch_progress
from backend.queries.switch.switches import moving_switches

ABOUT_TO_HOLD = "about_to_hold"
"""Key in a switch's progress."""
_LOCK = 0x7472_6C6E_6261_7463  # "trlnbatc"


@contextmanager
def running(engine: Engine) -> Iterator[bool]:
    """Hold the batch lock; yield whether a batch may run now. Raises DatabaseUnavailable."""
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        connection.execute(sa.select(sa.func.pg_advisory_lock_shared(_LOCK)))
        try:
            yield not must_rest(connection)
        finally:
            connection.execute(sa.select(sa.func.pg_advisory_unlock_shared(_LOCK)))


def are_running(connection: Connection) -> bool:
    """Return whether a batch runs in any process; call it in a short transaction."""
    free: bool = connection.execute(sa.select(sa.func.pg_try_advisory_xact_lock(_LOCK))).scalar_one()
    return not free


def must_rest(connection: Connection) -> bool:
    """Return whether clients are held, or are about to be."""
    return any(
        row.state in HELD or (switch_progress.read(connection, row.id) or {}).get(ABOUT_TO_HOLD)
        for row in moving_switches(connection)
    )
