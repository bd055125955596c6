"""The tables of losses and of dead letters."""

from __future__ import annotations

from backend.queries.distribution.edge_losses import DeadLetterRow, LossRow
from backend.web.tables.table import Column, Table
from backend.web.words.figures import full

DEAD_LETTERS_TABLE = Table[DeadLetterRow](
    "aside",
    "dead letters",
    (
        Column("record", "Record", lambda each: f"{each.stream}/{each.partition} at {full(each.offset)}"),
        Column("source", "Source", lambda each: each.cluster),
        Column("target", "Refused by", lambda each: each.target),
        Column("reason", "Reason", lambda each: each.reason),
        Column("replayed", "Replayed", lambda each: "yes" if each.replayed else "not yet"),
    ),
    prefix="dead-letters",
    within="aside-part",
)
LOSSES_TABLE = Table[LossRow](
    "losses",
    "losses",
    (
        Column("stream", "Stream", lambda each: each.stream),
        Column("partition", "Partition", lambda each: each.partition, number=True),
        Column("distributor", "Distributor", lambda each: f"{each.cluster}:{each.level} → {each.target}"),
        Column("from", "From", lambda each: each.first_offset, number=True),
        Column("to", "To", lambda each: each.last_offset, number=True),
        Column("least", "At least", lambda each: each.at_least, number=True),
        Column("reason", "Reason", lambda each: each.reason),
        Column("acknowledged", "Acknowledged", lambda each: "yes" if each.acknowledged else "not yet"),
    ),
    within="losses-part",
)
