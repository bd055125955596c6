"""Execution of one cluster's plan: one kind of change after the other, for many principals at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import structlog
from sqlalchemy import Engine

from backend.domain.access.access_steps import (
    AddAcls,
    ObservedAccess,
    RemoveAcls,
    RemoveCredentials,
    SetCredentials,
    SetQuotas,
    Step,
    part_of,
)
from backend.domain.base.errors import DomainError
from backend.kafka.admin.access import AccessAdmin, unable
from backend.kafka.base.errors import KafkaCallFailed
from backend.queries.access.sealing import keys_of
from backend.queries.tenants.secrets_of_applications import password
from backend.settings import Settings

log = structlog.get_logger("access")

REFUSED_SECONDS = 60.0
"""Seconds for which a part that a cluster refused is not tried again."""
NO_PASSWORD = (
    "its password cannot be read: the workers need the same TREELINE_SECRETS_KEY as the API; if it is lost, issue "
    "new credentials"
)
_ORDER = (RemoveCredentials, AddAcls, RemoveAcls, SetQuotas, SetCredentials)


class Changes:
    """Changes on one cluster, and the parts that it refused although it listed them."""

    def __init__(self, cluster: str, engine: Engine, settings: Settings) -> None:
        self._cluster = cluster
        self._engine = engine
        self._settings = settings
        self._refused: dict[str, tuple[str, float]] = {}

    def without_refused(self, seen: ObservedAccess) -> ObservedAccess:
        """Return the observation without the parts that the cluster refused to change a moment ago."""
        now = time.monotonic()
        refused = {part: reason for part, (reason, until) in self._refused.items() if until > now}
        return replace(seen, cannot={**refused, **seen.cannot})

    def carry_out(self, admin: AccessAdmin, steps: Sequence[Step]) -> dict[str, str | None]:
        """Make the changes, in the order of their kinds; return the principals that are not done, with the reason.

        A reason of None: nothing is to be recorded, it is planned again. A principal whose change failed is left
        out of the following kinds. Raises KafkaCallFailed if the cluster went away, DomainError if the database
        did.
        """
        calls: dict[type[Step], Callable[[Mapping[str, Any]], Mapping[str, KafkaCallFailed | str]]] = {
            RemoveCredentials: lambda some: admin.remove_credentials({who: s.before for who, s in some.items()}),
            AddAcls: lambda some: admin.add_acls({who: s.acls for who, s in some.items()}),
            RemoveAcls: lambda some: admin.remove_acls(
                {who: s.acls if s.wanted.acls else None for who, s in some.items()}
            ),
            SetQuotas: lambda some: admin.set_quotas({who: s.after for who, s in some.items()}),
            SetCredentials: lambda some: self._set_credentials(admin, some),
        }
        undone: dict[str, str | None] = {}
        for kind in _ORDER:
            chosen = {
                step.wanted.principal: step
                for step in steps
                if isinstance(step, kind) and step.wanted.principal not in undone
            }
            if not chosen:
                continue
            part = part_of(next(iter(chosen.values())))
            try:
                failed = calls[kind](chosen)
            except KafkaCallFailed as error:
                if unable(error) is None:
                    raise
                failed = dict.fromkeys(chosen, error)
            undone.update({who: self._reason(part, error) for who, error in failed.items()})
            done = len(chosen) - len(failed)
            log.info("access changed", cluster=self._cluster, change=kind.__name__, done=done, failed=len(failed))
        return undone

    def _set_credentials(
        self, admin: AccessAdmin, chosen: Mapping[str, SetCredentials]
    ) -> dict[str, KafkaCallFailed | str]:
        try:
            keys = keys_of(self._settings.secrets_key)
        except DomainError as error:
            return dict.fromkeys(chosen, error.detail)
        passwords: dict[str, tuple[str, int, str]] = {}
        with self._engine.connect() as connection:
            for principal, step in chosen.items():
                found = password(connection, principal, step.wanted.credentials or 0, keys)
                if found is not None:
                    passwords[principal] = (step.mechanism, step.after, found)
        missing = dict.fromkeys(chosen.keys() - passwords.keys(), NO_PASSWORD)
        return {**missing, **admin.set_credentials(passwords)}

    def _reason(self, part: str, error: KafkaCallFailed | str) -> str | None:
        if isinstance(error, str):
            return error
        refused = unable(error)
        if refused is None:
            return error.reason
        self._refused[part] = (refused, time.monotonic() + REFUSED_SECONDS)
        return None
