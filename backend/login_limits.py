"""How often one may fail to log in, and how many refused logins are kept: counted by each process for itself.

    wrong token --> by address, apart from logins; who has a right one that nobody can guess is let in meanwhile
    failed --> by address (IPv6: its /64), by the provider's word from there, by user, by a name that is no user's
    refused --> kept while its user, or its address, has room; else one row says how many more there were

Those are apart, so that none of them uses up another's room.
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
"""Of those who are not stopped: as many as there may be users."""
KEPT_OF_EACH = 60
KEPT_OF_ADDRESSES = 600
KEPT_SECONDS = 3600.0


class RateLimit:
    """At most `attempts` failures per caller within `seconds`. Many callers make it forget who failed less often,
    never who is stopped: there are only as many of those as could fail so often. Threads may share it."""

    def __init__(self, attempts: int, seconds: float) -> None:
        self._attempts, self._seconds = attempts, seconds
        self._lock = threading.Lock()
        # Both in the order of the last failure.
        self._counted: OrderedDict[str, list[float]] = OrderedDict()
        self._stopped: OrderedDict[str, list[float]] = OrderedDict()

    def blocked(self, caller: str) -> bool:
        """Whether the caller failed too often of late."""
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
    """All that a process counts. Names that are no user's have a place of their own: anybody can make those up."""

    def __init__(self) -> None:
        limits = [RateLimit(ATTEMPTS, ATTEMPTS_SECONDS) for _ in range(5)]
        self.addresses, self.providers, self.users, self.names, self.tokens = limits
        self._kept_users, self._kept_addresses = (RateLimit(KEPT_OF_EACH, KEPT_SECONDS) for _ in range(2))
        self._kept = RateLimit(KEPT_OF_ADDRESSES, KEPT_SECONDS)
        self._lock = threading.Lock()
        self._row, self._since, self._more = 0, float("-inf"), 0

    def keeps(self, address: str, user: str) -> bool:
        """Whether there is room for one more refused login; empty `user`: of nobody who is known."""
        if user and not self._kept_users.blocked(user):
            self._kept_users.failed(user)
            return True
        if self._kept_addresses.blocked(address) or self._kept.blocked(""):
            return False
        self._kept_addresses.failed(address)
        self._kept.failed("")
        return True

    def wrong_token(self, engine: Engine, provenance: Provenance) -> None:
        """Count a bearer token that is nobody's, and keep it for the audit as far as there is room."""
        network = network_of(provenance.address)
        self.tokens.failed(network)
        if not self.keeps(network, ""):
            self.one_more(engine)
            return
        with engine.begin() as connection:
            reason = "the token is unknown, has expired, or was revoked"
            logins.record(connection, LoginKind.REFUSED, "", "token", provenance, reason)

    def one_more(self, engine: Engine) -> None:
        """One was not kept: say so in the row that counts them, a new one after KEPT_SECONDS."""
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
    """What an address is counted by: who has one of IPv6 has the 2^64 beside it, too."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        found = found.ipv4_mapped or found
    return str(IPv6Network((found, 64), strict=False)) if isinstance(found, IPv6Address) else str(found)
