"""Who asks a registry, what it sees of a cluster's subjects, and what it may change (docs/access.md).

Readers of the estate see all; who may change the estate writes all. Users of tenants see, and write, the subjects
of their own tenants' streams; those by record name are everybody's whose tenant allows them. All others do not
exist.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import Connection

from backend import callers
from backend.callers import UNGUESSABLE_CHARACTERS
from backend.domain.access.access import ADMIN, Action, Caller, may
from backend.domain.names.names import StreamName
from backend.domain.schemas.subjects import SubjectOwners
from backend.eventlog.faults import DatabaseUnavailable
from backend.queries.access.callers import caller_of_token
from backend.queries.access.secrets import LONGEST_TOKEN, TOKEN_PREFIX
from backend.queries.schemas.subject_owners import Places, RegistryTenants, is_changed, places, registry_tenants
from backend.registry import refusals
from backend.registry.catalog import Catalog
from backend.registry.records import Reference
from backend.registry.together import Together
from backend.registry.visible import VisibleCatalog
from backend.settings import Settings

CALLER_SECONDS = 1.0
"""A token that expires is no event: this long it may open something still."""
MOST_CALLERS = 10_000


class Database(Protocol):
    """What of the process's services is asked here."""

    def looking(self) -> AbstractContextManager[Connection]:
        """A connection for one statement."""

    def reading(self) -> AbstractContextManager[Connection]:
        """A connection that sees one moment of the database."""


class Scope:
    """What one caller sees and may do on one cluster: the one rule, for the registry's API and for pages."""

    def __init__(
        self, caller: Caller, owners: SubjectOwners, record_names: frozenset[str], mark: bytes = b""
    ) -> None:
        """`record_names`: tenants that may use subjects by record name."""
        self.mark = mark
        """Another one for each caller, and once anything has happened that this depends on; empty: unknown."""
        self._caller, self._owners, self._record_names = caller, owners, record_names
        self._tenants = caller.tenants_for(Action.READ_TENANT)
        self._writes_all = may(caller, Action.CHANGE_ESTATE)

    @property
    def sees_all(self) -> bool:
        """Whether nothing is hidden."""
        return self._tenants is None

    def visible(self, catalog: Catalog) -> Catalog:
        """What of a catalog the caller sees."""
        return catalog if self.sees_all else VisibleCatalog(catalog, self.sees)

    def sees(self, subject: str) -> bool:
        """Whether a subject exists for the caller."""
        if self._tenants is None:
            return True
        owner = self._owner(subject)
        return bool(self._tenants & self._record_names) if owner is None else owner.tenant in self._tenants

    def stream_of(self, subject: str) -> StreamName | None:
        """The stream that a subject follows, or followed: it may be deleted. None for one by record name."""
        return self._owners.stream_of(subject)

    def _tenant(self, subject: str) -> str | None:
        stream = self.stream_of(subject)
        return None if stream is None else stream.tenant

    def _owner(self, subject: str) -> StreamName | None:
        """The stream that a subject follows, or is kept for; None: it is everybody's, by record name, and on no
        cluster of the tree what a stream's is called."""
        return self.stream_of(subject) or self._owners.kept_for(subject)

    def check_register(self, subject: str, references: tuple[Reference, ...], *, brings_id: bool = False) -> None:
        """Raise Refusal unless the caller may register schemas with these references there."""
        if self._writes_all:
            return
        if brings_id:
            # Whatever the mode is: an operator's migration is not everybody's.
            raise refusals.not_allowed("ids are given by operators of the estate: they are those of all tenants")
        tenant = self._tenant(subject)
        if tenant is not None and (self.sees(subject) or self._registers_record_names):
            self._check(Action.DECLARE_STREAMS, subject, tenant)
            return
        if not self._caller.tenants_for(Action.DECLARE_STREAMS):
            raise refusals.not_allowed(f"{self._caller.name} may not register schemas")
        if not self._registers_record_names:
            # Also for another tenant's subject: by the same words as for nobody's.
            raise refusals.no_record_names(subject)
        if self._owner(subject) is not None:
            # Not even its own tenant: there it would be in the way of the stream's.
            raise refusals.kept_for_a_stream(subject)
        for reference in references:
            if self._owner(reference.subject) is not None and self.sees(reference.subject):
                raise refusals.schema_invalid(
                    f"{subject!r} is a subject by record name, which all tenants see: it refers to subjects by "
                    f"record name only, not to {reference.subject!r}"
                )

    @property
    def _registers_record_names(self) -> bool:
        return bool((self._caller.tenants_for(Action.DECLARE_STREAMS) or frozenset()) & self._record_names)

    def check_settings(self, catalog: Catalog, subject: str | None, mode: object = None) -> None:
        """Raise Refusal unless the caller may set a level or a mode of the subject, or of all (None)."""
        if self._writes_all:
            return
        self._check_own(catalog, Action.DECLARE_STREAMS, subject)
        if str(mode).upper() == "IMPORT":
            # An id that is brought along is taken from everybody.
            raise refusals.not_allowed("mode IMPORT is for operators of the estate: ids are those of all tenants")

    def check_delete(self, catalog: Catalog, subject: str) -> None:
        """Raise Refusal unless the caller may delete the subject and its versions."""
        if self._writes_all:
            return
        self._check_own(catalog, Action.MANAGE_TENANT, subject)

    def _check_own(self, catalog: Catalog, action: Action, subject: str | None) -> None:
        """`catalog`: what the caller sees of it."""
        tenant = None if subject is None else self._tenant(subject)
        if subject is not None and tenant is not None:
            self._check(action, subject, tenant)
            return
        if subject is not None and subject not in catalog.subjects:
            # As for another tenant's.
            raise refusals.subject_unknown(subject)
        named = "what holds for all subjects" if subject is None else "a subject by record name"
        raise refusals.not_allowed(f"{named} is changed and deleted by operators of the estate")

    def _check(self, action: Action, subject: str, tenant: str) -> None:
        if may(self._caller, action, tenant):
            return
        if not self.sees(subject):
            raise refusals.subject_unknown(subject)
        raise refusals.not_allowed(f"{self._caller.name} may read {subject!r}; this needs {action} of {tenant}")


def scope_of(caller: Caller, cluster: str, known: RegistryTenants, mark: bytes = b"") -> Scope:
    """What a caller sees of a cluster. Raises Refusal: a cluster of no tree does not exist for tenants."""
    owners = known.owners.get(cluster)
    if owners is None:
        if not may(caller, Action.READ_ESTATE):
            raise refusals.cluster_unknown(cluster)
        owners = SubjectOwners({}, {})
    return Scope(caller, owners, known.record_names, mark)


@dataclass(frozen=True)
class _Known:
    """Who comes with a token; the database said so at these places, at this time of the process's clock."""

    caller: Caller
    places: Places
    at: float


class Access:
    """Finds callers and their scopes; threads share it.

    What is known of users, streams and environments holds as long as the database says that nothing has happened
    since, which is asked at every request: what is revoked or taken away is so for the next one.
    """

    def __init__(self, database: Database, config: Settings) -> None:
        self._database, self._config = database, config
        # With the places up to which it is known to hold.
        self._tenants: tuple[RegistryTenants, Places] | None = None
        self._callers: dict[bytes, _Known] = {}
        self._places = Together(self._look)

    def at_hand(self, authorization: bytes, *, on_this_machine: bool) -> Caller | None:
        """The caller, if that can be told without the database. Raises Refusal (nobody's token).

        `on_this_machine`: who asks is a program of the machine. An open registry is open to those alone.
        """
        if self._config.registry_open and on_this_machine:
            return ADMIN
        token = _token(authorization)
        if callers.is_token(token, self._config.admin_token):
            return ADMIN
        if not token.startswith(TOKEN_PREFIX) or len(token) > LONGEST_TOKEN:
            raise refusals.no_token()
        return None

    async def asked(self, authorization: bytes, cluster: str) -> Scope | None:
        """`scope`, on a thread only for what is not known yet. Raises Refusal."""
        try:
            at = await self._places()
        except DatabaseUnavailable as error:
            raise refusals.store_failed(error.detail) from error
        token = _token(authorization)
        caller, tenants = self._kept(token, at), self._tenants
        if caller is not None and may(caller, Action.CHANGE_ESTATE):
            return None
        if caller is not None and tenants is not None and tenants[1] == at:
            return scope_of(caller, cluster, tenants[0], _mark(token, at))
        return await asyncio.to_thread(self.scope, authorization, cluster)

    def scope(self, authorization: bytes, cluster: str) -> Scope | None:
        """What who asks with a user's token sees of a cluster; None: all, and may write all. Raises Refusal."""
        try:
            with self._database.looking() as connection:
                # Before all else: what happens meanwhile is then seen by the next request at the latest.
                at = places(connection)
                caller = self._caller(connection, _token(authorization), at)
                if caller is None:
                    raise refusals.no_token()
                if may(caller, Action.CHANGE_ESTATE):
                    return None
                known = self._tenants_at(connection, at)
        except DatabaseUnavailable as error:
            raise refusals.store_failed(error.detail) from error
        # Without a mark where something has happened meanwhile: what is known may be newer than the place.
        is_of_now = self._tenants == (known, at)
        return scope_of(caller, cluster, known, _mark(_token(authorization), at) if is_of_now else b"")

    def _look(self) -> Places:
        with self._database.looking() as connection:
            return places(connection)

    def tenants(self) -> RegistryTenants:
        """Whose subjects are, as of now. Raises DatabaseUnavailable."""
        with self._database.looking() as connection:
            return self._tenants_at(connection, places(connection))

    def _caller(self, connection: Connection, token: str, at: Places) -> Caller | None:
        caller = self._kept(token, at)
        if caller is not None:
            return caller
        now = time.monotonic()
        caller = caller_of_token(connection, token)
        if caller is not None:
            if len(self._callers) >= MOST_CALLERS:
                self._callers.clear()
            self._callers[_key(token)] = _Known(caller, at, now)
        return caller

    def _kept(self, token: str, at: Places) -> Caller | None:
        known = self._callers.get(_key(token))
        if known is None or known.places != at or time.monotonic() - known.at >= CALLER_SECONDS:
            return None
        return known.caller

    def _tenants_at(self, connection: Connection, at: Places) -> RegistryTenants:
        if self._tenants is not None:
            known, until = self._tenants
            if until == at:
                return known
            if not is_changed(connection, until):
                self._tenants = known, at
                return known
        with self._database.reading() as snapshot:
            known = registry_tenants(snapshot)
        self._tenants = known, known.places
        return known


def _mark(token: str, at: Places) -> bytes:
    return b"%b %b " % (_key(token), repr(at).encode())


def _key(token: str) -> bytes:
    # Not the token itself: what is kept in memory opens nothing.
    return hashlib.sha256(token.encode()).digest()


def is_guessable(authorization: bytes) -> bool:
    """Return whether the token could be found by trying: it is short, as one of the settings may be."""
    return len(_token(authorization)) < UNGUESSABLE_CHARACTERS


def _token(authorization: bytes) -> str:
    scheme, _, given = authorization.decode("latin-1").partition(" ")
    if scheme.lower() == "basic":
        # Stock clients send `basic.auth.user.info`; the user's name says nothing.
        try:
            return base64.b64decode(given).decode().partition(":")[2].strip()
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return given.strip() if scheme.lower() == "bearer" else ""
