"""Faults of one's own as a page is asked for them: fields of a form, or the same in one short word of an address.

In an address a fault is `crash 1 1000 4500` (what, whom, from which simulated millisecond on, for how long), a
cut `cut 2-3 1000 800`, and faults have commas between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from starlette.datastructures import QueryParams

from backend.replication_lab.configuration import ImpossibleDrill
from backend.replication_lab.schedules import HEALED_BY, MOST_FAULTS

NUMBERS = ("brokers", "replication_factor", "min_isr", "producers")
USUAL: Mapping[str, str] = {
    "brokers": "3",
    "replication_factor": "3",
    "min_isr": "2",
    "producers": "1",
    "acks_all": "true",
}
LONGEST = 8_000
"""Characters of the faults in an address."""
_EMPTY_ROWS = 2
FIELDS = ("fault", "broker", "other", "at_ms", "for_ms")
KINDS: Sequence[tuple[str, str]] = (
    ("crash", "crashes"),
    ("power_loss", "loses power, and what was not flushed"),
    ("pause", "stands still"),
    ("cut", "is cut off from"),
    ("slow", "is slow at fetching"),
    ("slow_disk", "has a slow disk"),
    ("session_expiry", "loses its session"),
)
"""As the form offers them."""


@dataclass(frozen=True)
class OwnFaults:
    """What a page was asked for."""

    given: Mapping[str, str]
    """The fields beside the faults, as they were given."""
    rows: Sequence[Mapping[str, str]]
    """A fault each, by `FIELDS`."""

    @property
    def document(self) -> dict[str, Any]:
        """As `read_schedule` takes it; what is no number stays what it is, for that to refuse."""
        found: dict[str, Any] = {name: _number(self.given[name]) for name in NUMBERS}
        acks_all = self.given["acks_all"]
        found["acks_all"] = acks_all == "true" if acks_all in ("true", "false") else acks_all
        found["faults"] = [
            {name: row[name] if name == "fault" else _number(row[name]) for name in FIELDS if row[name]}
            for row in self.rows
        ]
        return found

    @property
    def yaml(self) -> str:
        """The same as a file."""
        return yaml.safe_dump(self.document, sort_keys=False, default_flow_style=None, width=120)

    @property
    def kept(self) -> Mapping[str, str]:
        """As an address has it."""
        return {**self.given, "faults": ",".join(_short(row) for row in self.rows)}

    @property
    def form_rows(self) -> Sequence[Mapping[str, str]]:
        """The faults, and some more that may be filled in."""
        room = max(0, min(_EMPTY_ROWS, MOST_FAULTS - len(self.rows)))
        return [*self.rows, *[dict.fromkeys(FIELDS, "")] * room]


FIRST = OwnFaults(USUAL, [{"fault": "crash", "broker": "1", "other": "", "at_ms": "1000", "for_ms": "4500"}])
"""What the form begins with."""


def asked_for(query: QueryParams) -> OwnFaults | None:
    """What an address or a form asks for; None if it asks for nothing.

    Raises:
        ImpossibleDrill: the faults of an address cannot be read.
    """
    if "faults" not in query and "fault" not in query:
        return None
    given = {name: query.get(name, "").strip()[:20] or usual for name, usual in USUAL.items()}
    return OwnFaults(given, _short_rows(query["faults"]) if "faults" in query else _form_rows(query))


def _form_rows(query: QueryParams) -> Sequence[Mapping[str, str]]:
    columns = {name: query.getlist(name) for name in FIELDS}
    rows = [
        {name: (column[at] if at < len(column) else "").strip()[:20] for name, column in columns.items()}
        for at in range(len(columns["fault"]))
    ]
    # Fields that a fault does not have may still be filled in from what the row was before.
    return [
        {
            **row,
            "other": row["other"] if row["fault"] == "cut" else "",
            "for_ms": "" if _ends_by_itself(row["fault"]) else row["for_ms"],
        }
        for row in rows
        if row["fault"]
    ]


def _ends_by_itself(fault: str) -> bool:
    return fault in HEALED_BY and HEALED_BY[fault] is None


def _short(row: Mapping[str, str]) -> str:
    whom = f"{row['broker']}-{row['other']}" if row["other"] else row["broker"]
    return " ".join(filter(None, (row["fault"], whom, row["at_ms"], row["for_ms"])))


def _short_rows(text: str) -> Sequence[Mapping[str, str]]:
    if len(text) > LONGEST:
        raise ImpossibleDrill(f"the faults are {len(text):,} characters long; {LONGEST:,} are the most.")
    rows = []
    for number, each in enumerate(filter(None, (part.strip() for part in text.split(","))), 1):
        words = each.split()
        if not 3 <= len(words) <= 4:
            raise ImpossibleDrill(
                f"fault {number} is {each[:60]!r}: it must be what, whom, at_ms and for_ms, "
                "as in 'crash 1 1000 4500'."
            )
        broker, _, other = words[1].partition("-")
        rows.append(dict(zip(FIELDS, (words[0], broker, other, words[2], *words[3:], ""), strict=False)))
    return rows


def _number(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text
