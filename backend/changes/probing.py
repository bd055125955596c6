"""Keep that a cluster was probed: a probe sends secrets to an address, and a dry run of it leaves no event."""

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
    """Who probes a cluster, and whether it is a dry run."""

    engine: Engine
    actor: str
    dry_run: bool

    def note(self, bootstrap_servers: str, properties: Mapping[str, str]) -> None:
        """Add a row to the audit: the addresses, and what was referred to by name. No secret is in it."""
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
