"""Projection of adoptions: the latest one of each cluster, its start and its outcome."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from backend.domain.clusters.adoption import AdoptionBegun, AdoptionEnded
from backend.eventlog.recorded import RecordedEvent
from backend.eventlog.tables import METADATA
from backend.projections.framework import Projection
from backend.projections.temporal import Rows, change, replace, temporal_table

adoptions = temporal_table(
    "adoptions",
    METADATA,
    sa.Column("cluster", sa.Text, primary_key=True),
    # Position of the event that started it; that event lists the topics.
    sa.Column("begun", sa.BigInteger, nullable=False),
    # Topic -> reason of its refusal; NULL while the adoption is open.
    sa.Column("refused", JSONB(none_as_null=True)),
)


def _apply(rows: Rows, recorded: RecordedEvent) -> None:
    event, position = recorded.event, recorded.position
    match event:
        case AdoptionBegun():
            values = {"begun": position, "refused": None}
            replace(rows, adoptions, {"cluster": event.cluster}, values, position)
        case AdoptionEnded():
            change(rows, adoptions, {"cluster": event.cluster}, {"refused": event.refused}, position)


PROJECTION = Projection(
    name="adoptions",
    events=frozenset({AdoptionBegun, AdoptionEnded}),
    tables=(adoptions,),
    apply=_apply,
)
