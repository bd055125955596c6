"""A step of the control plane that is stopped in its middle, however short it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import TracebackType

import psycopg

from backend.eventlog.engine import create_engine
from backend.eventlog.faults import DatabaseUnavailable
from tests.eventually import eventually
from tests.faults.runs import Place
from workers import batch_exclusion

_LOCK = 7_011_953


@contextlib.contextmanager
def running_batch(place: Place) -> Iterator[None]:
    """Simulate a batch on Spark: a switch waits for it in `planned`, for some seconds.

    It starts when the estate's own batches have ended: the first one starts Spark, and a switch would wait for it,
    too.
    """
    engine = create_engine(place.database_url())

    def others_run() -> bool:
        with engine.begin() as connection:
            return batch_exclusion.are_running(connection)

    try:
        eventually(lambda: not others_run(), "the batches of the estate's own have ended")
        with (
            contextlib.suppress(DatabaseUnavailable),
            batch_exclusion.running(engine) as may,
        ):  # killed, its lock is gone
            assert may, "none has to rest"
            yield
    finally:
        engine.dispose()


class StoppedStep:
    """An append of one event that waits in the database, within its transaction, from `with` to `let_go`.

    The process that takes the step waits for a lock that is held here, as it may for any row. PostgreSQL may be
    killed in the meantime; the step then ends with it. After `let_go` no further step is stopped.
    """

    def __init__(self, owner_url: str, event: str, phase: str | None = None) -> None:
        self._url = owner_url.replace("+psycopg", "")
        self._condition = f"NEW.name = '{event}'" + (f" AND NEW.data ->> 'phase' = '{phase}'" if phase else "")
        self._connection: psycopg.Connection | None = None

    def __enter__(self) -> StoppedStep:
        connection = self._connection = self._connect()
        connection.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
        connection.execute(
            "CREATE OR REPLACE FUNCTION stopped_step() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN PERFORM pg_advisory_xact_lock({_LOCK}); RETURN NEW; END $$"
        )
        connection.execute(
            f"CREATE TRIGGER stopped_step BEFORE INSERT ON events FOR EACH ROW WHEN ({self._condition}) "
            "EXECUTE FUNCTION stopped_step()"
        )
        return self

    def reached(self) -> None:
        """Wait until a process is in the middle of the step."""
        connection = self._connection
        assert connection is not None
        waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND NOT granted"
        eventually(lambda: connection.execute(waiting, [_LOCK]).fetchone(), "the step is reached")

    def let_go(self) -> None:
        """Let the step continue, if its process still exists."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.OperationalError):  # the database died, and with it the lock
                connection.execute("SELECT pg_advisory_unlock(%s)", [_LOCK])
                connection.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.let_go()
        # Only now: dropping it waits for all readers of events, which the test may have kept waiting until here.
        with self._connect() as after:
            after.execute("DROP TRIGGER IF EXISTS stopped_step ON events")
            after.execute("DROP FUNCTION IF EXISTS stopped_step")

    def _connect(self) -> psycopg.Connection:
        def connect() -> psycopg.Connection | None:
            try:
                return psycopg.connect(self._url, autocommit=True)
            except psycopg.OperationalError:
                return None

        return eventually(connect, "the database answers", 0.2)
