"""Permissions of registry callers: the subjects of a cluster that they see and may change (docs/access.md).

Readers of the estate see everything; callers who may change the estate write everything. Users of tenants see and
write the subjects of their own tenants' streams; subjects by record name are shared by all tenants that allow
them. No other subjects exist for them.
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
from backend.registry.single_flight import SingleFlight
from backend.registry.visible import VisibleCatalog
from backend.settings import Settings

CALLER_SECONDS = 1.0
"""Seconds for which a caller is cached: a token that expires is no event, and may be accepted that much longer."""
MOST_CALLERS = 10_000


class Database(Protocol):
    """Services of the process that this module uses."""

    def looking(self) -> AbstractContextManager[Connection]:
        """Open a connection for one statement."""

    def reading(self) -> AbstractContextManager[Connection]:
        """Open a connection with one snapshot of the database."""


class Scope:
    """Subjects that one caller sees and may change on one cluster.

    The one rule, for the registry's API and for pages.
    """

    def __init__(
        self, caller: Caller, owners: SubjectOwners, record_names: frozenset[str], mark: bytes = b""
    ) -> None:
        """Build the scope. `record_names`: tenants that may use subjects by record name."""
        self.mark = mark
        """A value that differs between callers, and changes when anything happens that the scope depends on;
        empty: unknown."""
        self.owners = owners
        self._caller, self._record_names = caller, record_names
        self._tenants = caller.tenants_for(Action.READ_TENANT)
        self._writes_all = may(caller, Action.CHANGE_ESTATE)

    @property
    def sees_all(self) -> bool:
        """Return whether nothing is hidden."""
        return self._tenants is None

    def visible(self, catalog: Catalog) -> Catalog:
        """Return the part of a catalog that the caller sees."""
        return catalog if self.sees_all else VisibleCatalog(catalog, self.sees)

    def sees(self, subject: str) -> bool:
        """Tell whether a subject exists for the caller."""
        if self._tenants is None:
            return True
        owner = self._owner(subject)
        return bool(self._tenants & self._record_names) if owner is None else self.sees_tenant(owner.tenant)

    def sees_tenant(self, tenant: str) -> bool:
        """Tell whether the subjects of a tenant's streams exist for the caller."""
        return self._tenants is None or tenant in self._tenants

    def stream_of(self, subject: str) -> StreamName | None:
        """Return the stream that a subject follows or followed, which may be deleted.

        None for one by record name.
        """
        return self.owners.stream_of(subject)

    def _tenant(self, subject: str) -> str | None:
        stream = self.stream_of(subject)
        return None if stream is None else stream.tenant

    def _owner(self, subject: str) -> StreamName | None:
        """Return the stream that a subject follows, or is reserved for.

        None for a shared subject by record name, whose name is no stream's on any cluster of the tree.
        """
        return self.stream_of(subject) or self.owners.kept_for(subject)

    def check_register(self, subject: str, references: tuple[Reference, ...], *, brings_id: bool = False) -> None:
        """Raise RegistryError unless the caller may register schemas with these references there."""
        if self._writes_all:
            return
        if brings_id:
            # In every mode: IMPORT is for an operator's migration, not for tenants.
            raise refusals.not_allowed(
                "only operators of the estate may choose ids, because all tenants share them"
            )
        tenant = self._tenant(subject)
        if tenant is not None and (self.sees(subject) or self._registers_record_names):
            self._check(Action.DECLARE_STREAMS, subject, tenant)
            return
        if not self._caller.tenants_for(Action.DECLARE_STREAMS):
            raise refusals.not_allowed(f"{self._caller.name} may not register schemas")
        if not self._registers_record_names:
            # The same message for another tenant's subject and for nobody's.
            raise refusals.no_record_names(subject)
        if self._owner(subject) is not None:
            # Not even its own tenant: the subject would block the stream's subject on that cluster.
            raise refusals.kept_for_a_stream(subject)
        for reference in references:
            if self._owner(reference.subject) is not None and self.sees(reference.subject):
                raise refusals.schema_invalid(
                    f"{subject!r} is a subject by record name, which all tenants share: it may reference "
                    f"subjects by record name only, not {reference.subject!r}"
                )

    @property
    def _registers_record_names(self) -> bool:
        return bool((self._caller.tenants_for(Action.DECLARE_STREAMS) or frozenset()) & self._record_names)

    def check_settings(self, catalog: Catalog, subject: str | None, mode: object = None) -> None:
        """Raise RegistryError unless the caller may set a level or mode of the subject, or of all (None)."""
        if self._writes_all:
            return
        self._check_own(catalog, Action.DECLARE_STREAMS, subject)
        if str(mode).upper() == "IMPORT":
            # An imported id is no longer available for other tenants.
            raise refusals.not_allowed(
                "only operators of the estate may set mode IMPORT, because all tenants share ids"
            )

    def check_delete(self, catalog: Catalog, subject: str) -> None:
        """Raise RegistryError unless the caller may delete the subject and its versions."""
        if self._writes_all:
            return
        self._check_own(catalog, Action.MANAGE_TENANT, subject)

    def _check_own(self, catalog: Catalog, action: Action, subject: str | None) -> None:
        """Raise RegistryError unless the subject is the caller's own. `catalog`: the part that the caller sees."""
        tenant = None if subject is None else self._tenant(subject)
        if subject is not None and tenant is not None:
            self._check(action, subject, tenant)
            return
        if subject is not None and subject not in catalog.subjects:
            # The same answer as for another tenant's subject.
            raise refusals.subject_unknown(subject)
        named = "the global setting" if subject is None else "a subject by record name"
        raise refusals.not_allowed(f"only operators of the estate may change or delete {named}")

    def _check(self, action: Action, subject: str, tenant: str) -> None:
        if may(self._caller, action, tenant):
            return
        if not self.sees(subject):
            raise refusals.subject_unknown(subject)
        raise refusals.not_allowed(f"{self._caller.name} may read {subject!r}; this needs {action} of {tenant}")


def scope_of(caller: Caller, cluster: str, known: RegistryTenants, mark: bytes = b"") -> Scope:
    """Return a caller's scope on a cluster. Raises RegistryError: tenants cannot see a cluster in no tree."""
    owners = known.owners.get(cluster)
    if owners is None:
        if not may(caller, Action.READ_ESTATE):
            raise refusals.cluster_unknown(cluster)
        owners = SubjectOwners({}, {})
    return Scope(caller, owners, known.record_names, mark)


@dataclass(frozen=True)
class _Known:
    """The caller of a token, as the database said at these places, at this time of the process's clock."""

    caller: Caller
    places: Places
    at: float


class Access:
    """Finds callers and their scopes; threads share it.

    Facts about users, streams and environments are cached as long as the database says that nothing has happened
    since, which every request checks: revocations take effect with the next request.
    """

    def __init__(self, database: Database, config: Settings) -> None:
        self._database, self._config = database, config
        # With the places up to which the facts are known to hold.
        self._tenants: tuple[RegistryTenants, Places] | None = None
        self._callers: dict[bytes, _Known] = {}
        self._places = SingleFlight(self._look)

    def at_hand(self, authorization: bytes, *, on_this_machine: bool) -> Caller | None:
        """Return the caller, if it is known without the database. Raises RegistryError (unknown token).

        `on_this_machine`: the request comes from a program of this machine. An open registry is open to those
        alone.
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
        """Return the same as `scope`, on a thread only if the answer is not cached. Raises RegistryError."""
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
        """Return the scope of a user's token on a cluster; None for full access. Raises RegistryError."""
        try:
            with self._database.looking() as connection:
                # First of all: the next request sees what happens meanwhile at the latest.
                at = places(connection)
                caller = self._caller(connection, _token(authorization), at)
                if caller is None:
                    raise refusals.no_token()
                if may(caller, Action.CHANGE_ESTATE):
                    return None
                known = self._tenants_at(connection, at)
        except DatabaseUnavailable as error:
            raise refusals.store_failed(error.detail) from error
        # Without a mark if something has happened meanwhile: the facts may be newer than the place.
        is_of_now = self._tenants == (known, at)
        return scope_of(caller, cluster, known, _mark(_token(authorization), at) if is_of_now else b"")

    def _look(self) -> Places:
        with self._database.looking() as connection:
            return places(connection)

    def tenants(self) -> RegistryTenants:
        """Return the owners of subjects, as of now. Raises DatabaseUnavailable."""
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
    # Not the token itself, so that a memory dump grants no access.
    return hashlib.sha256(token.encode()).digest()


def is_guessable(authorization: bytes) -> bool:
    """Tell whether the token could be guessed, because it is short, as one from the settings may be."""
    return len(_token(authorization)) < UNGUESSABLE_CHARACTERS


def _token(authorization: bytes) -> str:
    scheme, _, given = authorization.decode("latin-1").partition(" ")
    if scheme.lower() == "basic":
        # Stock clients send `basic.auth.user.info`; the user's name is ignored.
        try:
            return base64.b64decode(given).decode().partition(":")[2].strip()
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return given.strip() if scheme.lower() == "bearer" else ""
