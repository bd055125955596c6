"""Connections to PostgreSQL: as a role that cannot change history, with time limits on everything that waits."""

from __future__ import annotations

import psycopg
import sqlalchemy as sa
from psycopg.errors import Diagnostic
from sqlalchemy import Engine, event
from sqlalchemy.engine import URL, ExceptionContext
from sqlalchemy.exc import TimeoutError as PoolExhausted
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection, QueuePool

from backend.domain.base.errors import DomainError
from backend.eventlog.faults import DatabaseUnavailable, translate

APPLICATION_ROLE = "treeline_application"

POOL_SIZE = 5
MOST_CONNECTIONS = 30  # per process; three processes stay below PostgreSQL's default of 100
CONNECT_TIMEOUT_SECONDS = 5
LOCK_TIMEOUT_MS = 10_000
STATEMENT_TIMEOUT_MS = 30_000
# A worker that stops in mid-transaction (SIGSTOP, a cut network) would hold the append lock for ever.
IDLE_IN_TRANSACTION_TIMEOUT_MS = 15_000
_LAST_WORDS = "sqlstate of the server's last words"
"""Key in a pooled connection's `info`."""


class _Pool(QueuePool):
    """Connection pool that reports its exhaustion as an unavailable database."""

    def connect(self) -> PoolProxiedConnection:
        try:
            return super().connect()
        except PoolExhausted as error:
            raise DatabaseUnavailable("Too many requests are waiting for the database. Try again.") from error


def create_engine(
    url: str | URL,
    *,
    role: str | None = APPLICATION_ROLE,
    lock_timeout_ms: int = LOCK_TIMEOUT_MS,
    statement_timeout_ms: int = STATEMENT_TIMEOUT_MS,
    idle_in_transaction_timeout_ms: int = IDLE_IN_TRANSACTION_TIMEOUT_MS,
) -> Engine:
    """Create a SQLAlchemy engine on psycopg; a timeout of 0 means none. Threads may share it, forks may not.

    `role` is the role that each connection drops to; None keeps the login's own rights (migrations). A database
    that is gone, full or busy raises `DatabaseUnavailable` or a subclass; other driver errors stay as they are.
    """
    parameters = {
        "timezone": "UTC",
        "lock_timeout": lock_timeout_ms,
        "statement_timeout": statement_timeout_ms,
        "idle_in_transaction_session_timeout": idle_in_transaction_timeout_ms,
        **({"role": role} if role else {}),
    }
    engine = sa.create_engine(
        url,
        poolclass=_Pool,
        pool_size=POOL_SIZE,
        max_overflow=MOST_CONNECTIONS - POOL_SIZE,
        pool_timeout=CONNECT_TIMEOUT_SECONDS,
        # After a restart of PostgreSQL the pool holds dead connections; the ping replaces them silently.
        pool_pre_ping=True,
        connect_args={
            "options": " ".join(f"-c {name}={value}" for name, value in parameters.items()),
            "application_name": "treeline",
            "connect_timeout": CONNECT_TIMEOUT_SECONDS,
            # A cut network sends nothing: without these a reader would wait for hours.
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": 10_000,
        },
    )
    event.listen(engine, "connect", _listen)
    event.listen(engine, "handle_error", _translated)
    return engine


def _listen(connection: psycopg.Connection, entry: ConnectionPoolEntry) -> None:
    """Remember why the server ends a connection, if it says so while it owes no answer.

    libpq takes that for a notice. It happens if the process stalls while it waits for an answer: it then reads the
    answer and the end together, and the next statement finds the connection closed, without a reason.
    """

    def remember(notice: Diagnostic) -> None:
        if notice.severity_nonlocalized == "FATAL":
            entry.info[_LAST_WORDS] = notice.sqlstate

    connection.add_notice_handler(remember)


def _translated(context: ExceptionContext) -> DomainError | None:
    if context.is_pre_ping:
        return None  # the pool opens a new connection, whose failure comes through here again
    error = context.original_exception
    sqlstate = getattr(error, "sqlstate", None)
    lost = context.is_disconnect or context.connection is None
    if lost and sqlstate is None and context.connection is not None:
        sqlstate = context.connection.info.get(_LAST_WORDS)
    return translate(sqlstate, str(error), lost=lost)
