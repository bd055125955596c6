"""State of the offset translator and the commits that wait for it: an observation of one row.

The worker writes it; `GET /offsets`, the Offsets page and `treeline get offsets` show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import JSONB, insert

from backend.eventlog.tables import METADATA

offset_translation = sa.Table(
    "offset_translation",
    METADATA,
    sa.Column("translator", sa.Text, primary_key=True),
    sa.Column("state", sa.Text, nullable=False),
    # When this state began, and when the worker last reported, by the database's clock.
    sa.Column("since", sa.DateTime(timezone=True), nullable=False),
    sa.Column("waiting", JSONB, nullable=False),
    sa.Column("told_at", sa.DateTime(timezone=True), nullable=False),
)
_ONE = "offsets"
_NOW = sa.func.clock_timestamp()
SILENT_SECONDS = 180.0
"""Seconds after which a translator that has not reported counts as not running; it does not report during a
batch."""


class State(StrEnum):
    """State of the translator."""

    NOT_RUNNING = "not-running"
    READING_COMMITS = "reading-commits"
    STARTING_SPARK = "starting-spark"
    READING_LOGS = "reading-logs"
    RESTING = "resting"
    IDLE = "idle"


_TEXTS = {
    State.NOT_RUNNING: "No worker translates offsets. Start one for the queue treeline.offsets, or check its log.",
    State.READING_COMMITS: "The worker has started and is reading the committed offsets of all clusters.",
    State.STARTING_SPARK: "The Spark session is starting. This takes 15 to 30 s, or minutes on a busy machine.",
    State.READING_LOGS: "A Spark batch is running: it reads logs up to the committed offsets.",
    State.RESTING: "A switch holds clients: their last commits are translated directly; all others wait.",
    State.IDLE: "",
}


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Commits that were observed and are not translated yet."""

    commits: Mapping[str, int] = field(default_factory=dict)
    """Number of commits by cluster, for clusters that have any."""
    away: Mapping[str, str] = field(default_factory=dict)
    """Clusters whose commits cannot be followed now -> reason."""
    reading: tuple[str, ...] = ()
    """Clusters whose commits have not been read to the end yet."""

    @property
    def total(self) -> int:
        """Return the number of waiting commits on all clusters."""
        return sum(self.commits.values())


@dataclass(frozen=True, kw_only=True)
class TranslationRow:
    """State of the translator as last reported."""

    state: State
    since: datetime | None
    """None: no translator has ever reported."""
    waiting: Waiting

    @property
    def waits(self) -> bool:
        """Tell whether commits wait, or the translator is in any other state than idle."""
        return self.state is not State.IDLE or self.waiting.total > 0 or bool(self.waiting.away)

    @property
    def text(self) -> str:
        """Return what commits wait for, in sentences; empty if they wait for nothing."""
        said = [_TEXTS[self.state]] if _TEXTS[self.state] else []
        if self.waiting.total:
            said.append(f"{self.waiting.total:,} commits are not translated yet.")
        said += [
            f"Commits on {cluster} cannot be read: {why}." for cluster, why in sorted(self.waiting.away.items())
        ]
        return " ".join(said)

    def document(self, *, whole: bool) -> dict[str, Any]:
        """Return the JSON form. `whole` adds the clusters' errors and the number of commits of all tenants."""
        shown: dict[str, Any] = {
            "state": self.state.value,
            "since": None if self.since is None else self.since.isoformat(),
        }
        if not whole:
            return {**shown, "waiting_commits": None, "clusters": [], "text": _TEXTS[self.state]}
        names = sorted({*self.waiting.commits, *self.waiting.away, *self.waiting.reading})
        clusters = [
            {
                "cluster": name,
                "waiting_commits": self.waiting.commits.get(name, 0),
                "is_read_to_end": name not in self.waiting.reading,
                "reason": self.waiting.away.get(name),
            }
            for name in names
        ]
        return {**shown, "waiting_commits": self.waiting.total, "clusters": clusters, "text": self.text}


def write(connection: Connection, state: State, waiting: Waiting) -> None:
    """Replace the last report; `since` stays while the state does."""
    told = {**asdict(waiting), "reading": list(waiting.reading)}
    row = insert(offset_translation).values(
        translator=_ONE, state=state.value, since=_NOW, waiting=told, told_at=_NOW
    )
    t, new = offset_translation.c, row.excluded
    same = sa.and_(t.state == new.state, t.told_at > _NOW - sa.text(f"interval '{SILENT_SECONDS:g} seconds'"))
    changed = {
        "state": new.state,
        "since": sa.case((same, t.since), else_=new.since),
        "waiting": new.waiting,
        "told_at": new.told_at,
    }
    connection.execute(row.on_conflict_do_update(index_elements=["translator"], set_=changed))


def read(connection: Connection) -> TranslationRow:
    """Read the current state of the translator."""
    t = offset_translation.c
    silent_s = sa.extract("epoch", _NOW - t.told_at).label("silent_s")
    row = connection.execute(sa.select(offset_translation, silent_s)).one_or_none()
    if row is None:
        return TranslationRow(state=State.NOT_RUNNING, since=None, waiting=Waiting())
    waiting = Waiting(
        commits=row.waiting.get("commits", {}),
        away=row.waiting.get("away", {}),
        reading=tuple(row.waiting.get("reading", ())),
    )
    if row.silent_s > SILENT_SECONDS:
        return TranslationRow(state=State.NOT_RUNNING, since=row.told_at, waiting=waiting)
    try:
        state = State(row.state)
    except ValueError:
        state = State.IDLE  # a newer version's worker, in a rolling update
    return TranslationRow(state=state, since=row.since, waiting=waiting)
