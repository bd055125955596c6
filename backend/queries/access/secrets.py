"""Hashes of tokens and passwords, with their owners; never in the event log, which nothing can be removed from.

A token is 256 random bits: SHA-256 is enough, since nobody can try so many; and it has to be quick, for every
request needs it. A password consists of words, which can be tried: scrypt makes each try cost 32 MiB and tenths of
a second.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import threading

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert

from backend.domain.base.errors import PasswordsBusy
from backend.eventlog.tables import METADATA
from backend.projections.temporal import as_of
from backend.projections.users import users
from backend.queries.access.login import end_sessions, hash_of

LONGEST_TOKEN = 200
TOKEN_PREFIX = "treeline_"
# OWASP's password storage sheet: N = 2^15, r = 8, p = 3. The cost is part of each hash, so that it can be raised.
COST, BLOCK, PARALLEL = 1 << 15, 8, 3
SALT_BYTES, KEY_BYTES = 16, 32
# Each takes 32 MiB and a processor, and a waiting request takes a thread: a flood of logins must not exhaust them.
AT_ONCE, WAITING = 2, 8
_running, _waiting = threading.BoundedSemaphore(AT_ONCE), threading.BoundedSemaphore(WAITING)

token_hashes = sa.Table(
    "token_hashes",
    METADATA,
    sa.Column("user", sa.Text, primary_key=True),
    sa.Column("token", sa.Text, primary_key=True),
    # As in `api_tokens`: a token of the same name that was issued at another time is another token.
    sa.Column("issued", sa.BigInteger, nullable=False),
    sa.Column("hash", sa.Text, nullable=False, unique=True),
)
password_hashes = sa.Table(
    "password_hashes",
    METADATA,
    sa.Column("user", sa.Text, primary_key=True),
    sa.Column("hash", sa.Text, nullable=False),
)


def new_token() -> str:
    """Return a new token; its prefix lets secret scanners find it."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def keep_token(connection: Connection, user: str, token: str, issued: int, secret: str) -> None:
    """Store a token's hash; the token is valid once the transaction commits."""
    values = {"issued": issued, "hash": hash_of(secret)}
    new = insert(token_hashes).values(user=user, token=token, **values)
    connection.execute(new.on_conflict_do_update(index_elements=["user", "token"], set_=values))


def forget_token(connection: Connection, user: str, token: str) -> None:
    """Delete a revoked token's hash."""
    t = token_hashes.c
    connection.execute(sa.delete(token_hashes).where(t.user == user, t.token == token))


def keep_password(connection: Connection, user: str, hashed: str) -> None:
    """Store a user's password, as hashed by `hash_password`; the user's sessions end."""
    new = insert(password_hashes).values(user=user, hash=hashed)
    connection.execute(new.on_conflict_do_update(index_elements=["user"], set_={"hash": hashed}))
    end_sessions(connection, user)


def hash_password(password: str) -> str:
    """Return `scrypt$N$r$p$salt$key`. Slow on purpose: not for a transaction that others wait for."""
    salt = secrets.token_bytes(SALT_BYTES)
    key = _scrypt(password, salt, COST, BLOCK, PARALLEL)
    return _stored(salt, key)


def is_password(password: str, hashed: str | None) -> bool:
    """Check a password; without a hash the answer is False, and takes as long as any other."""
    _, cost, block, parallel, salt, key = (hashed or _hash_of_nobody()).split("$")
    found = _scrypt(password, base64.b64decode(salt), int(cost), int(block), int(parallel))
    return hmac.compare_digest(found, base64.b64decode(key)) and hashed is not None


def password_hash(connection: Connection, user: str) -> str | None:
    """Return the hash of a user who may log in by password; None if there is no such user, or it is disabled.

    The row is locked until the transaction ends, so that no session is opened by a password that is being
    replaced.
    """
    h = password_hashes.c
    query = sa.select(h.hash).join(users, users.c.name == h.user)
    query = query.where(h.user == user, as_of(users, None), users.c.disabled.is_(False))
    return connection.execute(query.with_for_update(read=True, of=password_hashes)).scalar_one_or_none()


def _scrypt(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    if not _waiting.acquire(blocking=False):
        raise PasswordsBusy("Too many passwords are being checked. Try again in some seconds.")
    try:
        _running.acquire()
    finally:
        _waiting.release()
    given = password.encode("utf-8", "surrogateescape")
    most_bytes = 2 * 128 * cost * block * parallel
    try:
        return hashlib.scrypt(given, salt=salt, n=cost, r=block, p=parallel, maxmem=most_bytes, dklen=KEY_BYTES)
    finally:
        _running.release()


def _hash_of_nobody() -> str:
    """Return the hash that a password is compared with if the user has none."""
    return _stored(bytes(SALT_BYTES), bytes(KEY_BYTES))


def _stored(salt: bytes, key: bytes) -> str:
    words = ["scrypt", COST, BLOCK, PARALLEL, base64.b64encode(salt).decode(), base64.b64encode(key).decode()]
    return "$".join(str(word) for word in words)
