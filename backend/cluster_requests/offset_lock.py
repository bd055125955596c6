"""Lock for setting offsets of consumer groups on a cluster from outside.

A broker refuses such offsets for a group with members. For a group without members, as every group is while a
switch moves it, the last one to set an offset wins. So the offset committer, a switch and an operator's reset take
turns: each checks the current offsets once more, and sets them, while the others wait.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from sqlalchemy import Engine

from backend.eventlog import held_lock
from backend.eventlog.held_lock import HeldLock

WAIT_SECONDS = 25.0
"""Longer than the time that a cluster has to answer the previous holder."""


def setting_offsets(
    engine: Engine, cluster: str, wait_seconds: float = WAIT_SECONDS
) -> AbstractContextManager[HeldLock]:
    """Hold the exclusive right to set offsets of groups on this cluster. Raises LockBusy, DatabaseUnavailable."""
    return held_lock.hold(engine, f"offsets {cluster}", wait_seconds=wait_seconds)
