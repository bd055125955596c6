"""Batches on Spark and clients that are held do not go together: on one machine either wants all of it.

A switch says that it is about to hold; from then on no batch begins, and it waits for the one that runs. Both ask
in that order, so that neither overlooks the other. Nobody waits for whoever has died: the lock goes with its
connection, and a switch that is not carried on for a moment keeps nobody for longer than that.
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
"""Of what a switch tells of itself."""
_LOCK = 0x7472_6C6E_6261_7463  # "trlnbatc"


@contextmanager
def running(engine: Engine) -> Iterator[bool]:
    """While a batch runs, if it may: gives whether none has to rest. Raises DatabaseUnavailable."""
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        connection.execute(sa.select(sa.func.pg_advisory_lock_shared(_LOCK)))
        try:
            yield not must_rest(connection)
        finally:
            connection.execute(sa.select(sa.func.pg_advisory_unlock_shared(_LOCK)))


def are_running(connection: Connection) -> bool:
    """Whether there is one in any process; within a transaction, which ends soon."""
    free: bool = connection.execute(sa.select(sa.func.pg_try_advisory_xact_lock(_LOCK))).scalar_one()
    return not free


def must_rest(connection: Connection) -> bool:
    """Whether clients are held, or are about to be."""
    return any(
        row.state in HELD or (switch_progress.read(connection, row.id) or {}).get(ABOUT_TO_HOLD)
        for row in moving_switches(connection)
    )
