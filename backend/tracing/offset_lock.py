"""The lock under which offsets of consumer groups are set on a cluster from outside.

A broker refuses such an offset to a group with members. For a group without members, as every group is while a
switch moves it, the last one to set an offset wins. So the offset committer, a switch and an operator's reset take
turns: each looks once more at what stands, and sets it, while the others do not.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from sqlalchemy import Engine

from backend.eventlog import held_lock
from backend.eventlog.held_lock import HeldLock

WAIT_SECONDS = 25.0
"""Longer than a cluster is given to answer whoever is before."""


def setting_offsets(
    engine: Engine, cluster: str, wait_seconds: float = WAIT_SECONDS
) -> AbstractContextManager[HeldLock]:
    """Be the only one that sets offsets of groups on this cluster. Raises LockBusy, DatabaseUnavailable."""
    return held_lock.hold(engine, f"offsets {cluster}", wait_seconds=wait_seconds)
