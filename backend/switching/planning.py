"""Makes the plan of a switch from what the database and the clusters say now."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection

from backend.domain import switch_plan
from backend.domain.switch_facts import Wish
from backend.domain.switch_plan import Plan
from backend.settings import Settings
from backend.switching import reading
from backend.switching.asking import ask


def make(
    snapshot: Callable[[], AbstractContextManager[Connection]], settings: Settings, wish: Wish, now: datetime
) -> Plan:
    """The plan; takes as long as the slowest cluster, some seconds at most. `snapshot`: opens a connection that
    sees one moment of the database; it is given back before clusters are asked.

    Raises NotFound (cluster, tenant, instance, environment, or zone that nobody has).
    """
    with snapshot() as connection:
        ground = reading.read(connection, settings, wish, now)
    facts = replace(ground.facts, asked=ask(ground, settings, wish))
    return switch_plan.make(facts, wish)
