"""What the translator of offsets does at this moment, and what commits wait for: an observation, one row.

The worker writes it; `GET /offsets`, the page Offsets and `treeline get offsets` show it.
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
    # Since when it is so, and when it was told last, by the database's clock.
    sa.Column("since", sa.DateTime(timezone=True), nullable=False),
    sa.Column("waiting", JSONB, nullable=False),
    sa.Column("told_at", sa.DateTime(timezone=True), nullable=False),
)
_ONE = "offsets"
_NOW = sa.func.clock_timestamp()
SILENT_SECONDS = 180.0
"""After so long a translator that has told nothing is taken for gone: a batch tells nothing while it runs."""


class State(StrEnum):
    """What the translator does."""

    NOT_RUNNING = "not-running"
    READING_COMMITS = "reading-commits"
    STARTING_SPARK = "starting-spark"
    READING_LOGS = "reading-logs"
    RESTING = "resting"
    IDLE = "idle"


_TEXTS = {
    State.NOT_RUNNING: "No worker translates offsets: start one for the queue treeline.offsets, or see its log.",
    State.READING_COMMITS: "The commits that clusters hold are read for the first time since the worker began.",
    State.STARTING_SPARK: "The Spark session is starting: it takes 15 to 30 s, minutes on a busy machine.",
    State.READING_LOGS: "A batch runs on Spark: logs are read up to the committed offsets.",
    State.RESTING: "Clients are held for a switch: their last commits are carried over directly, others wait.",
    State.IDLE: "",
}


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Commits that were seen and are not translated yet."""

    commits: Mapping[str, int] = field(default_factory=dict)
    """By cluster, where there are any."""
    away: Mapping[str, str] = field(default_factory=dict)
    """Clusters whose commits cannot be followed now, and why."""
    reading: tuple[str, ...] = ()
    """Clusters whose commits are still being read to their end."""

    @property
    def total(self) -> int:
        """Of all clusters."""
        return sum(self.commits.values())


@dataclass(frozen=True, kw_only=True)
class TranslationRow:
    """The translator as it was told last."""

    state: State
    since: datetime | None
    """None: nobody ever told."""
    waiting: Waiting

    @property
    def waits(self) -> bool:
        """Whether there is something to say of it."""
        return self.state is not State.IDLE or self.waiting.total > 0 or bool(self.waiting.away)

    @property
    def text(self) -> str:
        """What is waited for, in sentences; empty where nothing is."""
        said = [_TEXTS[self.state]] if _TEXTS[self.state] else []
        if self.waiting.total:
            said.append(f"{self.waiting.total:,} commits were seen and are not translated yet.")
        said += [
            f"Commits on {cluster} cannot be read: {why}." for cluster, why in sorted(self.waiting.away.items())
        ]
        return " ".join(said)

    def document(self, *, whole: bool) -> dict[str, Any]:
        """As JSON has it. `whole`: also what clusters say, and how many commits of all tenants wait."""
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
    """Replace what was told before; `since` stays while the state does."""
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
    """The translator at this moment."""
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
