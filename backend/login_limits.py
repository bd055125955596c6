"""Limits of failed logins, and of the refused logins that are kept; each process counts for itself.

    wrong token --> by address, apart from logins; a valid token that cannot be guessed is accepted meanwhile
    failed --> by address (IPv6: its /64), by the provider's answer for the address, by user, by unknown name
    refused --> kept while its user, or its address, has room; else one row counts the others

The counts are separate, so that none of them uses up another's room.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Any

from sqlalchemy import Engine

from backend.domain.access.access import Provenance
from backend.queries.access import logins
from backend.queries.access.logins import LoginKind

ATTEMPTS = 10
ATTEMPTS_SECONDS = 60.0
MOST_CALLERS = 10_000
"""Most callers that are counted and not blocked: as many as there may be users."""
KEPT_OF_EACH = 60
KEPT_OF_ADDRESSES = 600
KEPT_SECONDS = 3600.0


class RateLimit:
    """A limit of `attempts` failures per caller within `seconds`; threads may share it.

    With many callers it forgets those with fewer failures, never a blocked one: there are only as many of these as
    could fail so often.
    """

    def __init__(self, attempts: int, seconds: float) -> None:
        self._attempts, self._seconds = attempts, seconds
        self._lock = threading.Lock()
        # Both in the order of the last failure.
        self._counted: OrderedDict[str, list[float]] = OrderedDict()
        self._stopped: OrderedDict[str, list[float]] = OrderedDict()

    def blocked(self, caller: str) -> bool:
        """Tell whether the caller failed too often recently."""
        with self._lock:
            return len(self._recent(caller)) >= self._attempts

    def failed(self, caller: str) -> None:
        """Count a failure."""
        with self._lock:
            failures = [*self._recent(caller), time.monotonic()][-self._attempts :]
            for group in (self._counted, self._stopped):
                group.pop(caller, None)
            (self._stopped if len(failures) == self._attempts else self._counted)[caller] = failures
            while len(self._counted) > MOST_CALLERS:
                self._counted.popitem(last=False)
            while self._stopped and not self._recent(next(iter(self._stopped))):
                self._stopped.popitem(last=False)

    def _recent(self, caller: str) -> list[float]:
        since = time.monotonic() - self._seconds
        failures = self._stopped.get(caller) or self._counted.get(caller, [])
        return [moment for moment in failures if moment > since]


class LoginLimits:
    """All counts of a process. Unknown names have a count of their own, since anybody can invent them."""

    def __init__(self) -> None:
        limits = [RateLimit(ATTEMPTS, ATTEMPTS_SECONDS) for _ in range(5)]
        self.addresses, self.providers, self.users, self.names, self.tokens = limits
        self._kept_users, self._kept_addresses = (RateLimit(KEPT_OF_EACH, KEPT_SECONDS) for _ in range(2))
        self._kept = RateLimit(KEPT_OF_ADDRESSES, KEPT_SECONDS)
        self._lock = threading.Lock()
        self._row, self._since, self._more = 0, float("-inf"), 0

    def keeps(self, address: str, user: str) -> bool:
        """Tell whether there is room for one more refused login; empty `user` for an unknown one."""
        if user and not self._kept_users.blocked(user):
            self._kept_users.failed(user)
            return True
        if self._kept_addresses.blocked(address) or self._kept.blocked(""):
            return False
        self._kept_addresses.failed(address)
        self._kept.failed("")
        return True

    def wrong_token(self, engine: Engine, provenance: Provenance) -> None:
        """Count an unknown bearer token, and keep the refusal for the audit as far as there is room."""
        network = network_of(provenance.address)
        self.tokens.failed(network)
        if not self.keeps(network, ""):
            self.one_more(engine)
            return
        with engine.begin() as connection:
            reason = "the token is unknown, has expired, or was revoked"
            logins.record(connection, LoginKind.REFUSED, "", "token", provenance, reason)

    def one_more(self, engine: Engine) -> None:
        """Count a refusal that was not kept, in a row of its own; a new row begins after KEPT_SECONDS."""
        with self._lock:
            now = time.monotonic()
            begins = now - self._since > KEPT_SECONDS
            more = 1 if begins else self._more + 1
            reason = f"{more} more {'was' if more == 1 else 'were'} not kept"
            with engine.begin() as connection:
                if begins:
                    row = logins.record(connection, LoginKind.REFUSED, "", "", Provenance("", "", ""), reason)
                else:
                    row = self._row
                    logins.change_reason(connection, row, reason)
            self._row, self._since, self._more = row, now if begins else self._since, more


def limits_of(app: Any) -> LoginLimits:
    """Return the limits of an application (Starlette), which its requests share."""
    state = app.state
    if not hasattr(state, "login_limits"):
        state.login_limits = LoginLimits()
    limits: LoginLimits = state.login_limits
    return limits


def network_of(address: str) -> str:
    """Return the network by which an address is counted: a host with an IPv6 address has its whole /64."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        found = found.ipv4_mapped or found
    return str(IPv6Network((found, 64), strict=False)) if isinstance(found, IPv6Address) else str(found)
