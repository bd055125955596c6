"""Audit of probes: a probe sends secrets to an address, and its dry run leaves no event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Engine

from backend.domain.access.access import Provenance
from backend.domain.clusters.client_properties import LOCATION_KEYS, TOKEN_ENDPOINT, is_reference
from backend.eventlog.provenance import current
from backend.queries.access import logins
from backend.queries.access.logins import LoginKind

MOST_CHARACTERS = 2000


@dataclass(frozen=True)
class Prober:
    """Identity of the caller that probes a cluster, and whether the request is a dry run."""

    engine: Engine
    actor: str
    dry_run: bool

    def note(self, bootstrap_servers: str, properties: Mapping[str, str]) -> None:
        """Add a row to the audit log: the addresses and the names of referenced secrets, but no secret."""
        said = [bootstrap_servers, *_named(properties)]
        text = ("dry run: " if self.dry_run else "") + "; ".join(said)
        came_from = current() or Provenance("", "", "")
        with self.engine.begin() as connection:
            logins.record(
                connection, LoginKind.PROBED, self.actor, came_from.means, came_from, text[:MOST_CHARACTERS]
            )


def _named(properties: Mapping[str, str]) -> list[str]:
    return [
        f"{key}={value}"
        for key, value in sorted(properties.items())
        if key == TOKEN_ENDPOINT or key in LOCATION_KEYS or is_reference(value)
    ]
