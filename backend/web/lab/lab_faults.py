"""A user's own faults as a page receives them: form fields, or a short form in the address.

In an address a fault is `crash 1 1000 4500` (fault, broker, start and duration in simulated milliseconds), a
cut `cut 2-3 1000 800`, and faults have commas between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from starlette.datastructures import QueryParams

from backend.replication_lab.model.configuration import InvalidDrill
from backend.replication_lab.runs.schedules import HEALED_BY, MOST_FAULTS

NUMBERS = ("brokers", "replication_factor", "min_isr", "producers")
USUAL: Mapping[str, str] = {
    "brokers": "3",
    "replication_factor": "3",
    "min_isr": "2",
    "producers": "1",
    "acks_all": "true",
}
LONGEST = 8_000
"""Most characters of the faults in an address."""
_EMPTY_ROWS = 2
FIELDS = ("fault", "broker", "other", "at_ms", "for_ms")
KINDS: Sequence[tuple[str, str]] = (
    ("crash", "crashes"),
    ("power_loss", "loses power and unflushed records"),
    ("pause", "is paused"),
    ("cut", "is cut off from"),
    ("slow", "is slow at fetching"),
    ("slow_disk", "has a slow disk"),
    ("session_expiry", "loses its session"),
)
"""Faults with the verbs that the form offers."""


@dataclass(frozen=True)
class OwnFaults:
    """Faults and configuration that a page was requested for."""

    given: Mapping[str, str]
    """Fields besides the faults, as they were given."""
    rows: Sequence[Mapping[str, str]]
    """One row per fault, by `FIELDS`."""

    @property
    def document(self) -> dict[str, Any]:
        """Return the document for `read_schedule`; text that is no number stays text, which it refuses."""
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
        """Return the document as YAML."""
        return yaml.safe_dump(self.document, sort_keys=False, default_flow_style=None, width=120)

    @property
    def kept(self) -> Mapping[str, str]:
        """Return the query parameters of an address."""
        return {**self.given, "faults": ",".join(_short(row) for row in self.rows)}

    @property
    def form_rows(self) -> Sequence[Mapping[str, str]]:
        """Return the rows of the faults, and some empty rows."""
        room = max(0, min(_EMPTY_ROWS, MOST_FAULTS - len(self.rows)))
        return [*self.rows, *[dict.fromkeys(FIELDS, "")] * room]


FIRST = OwnFaults(USUAL, [{"fault": "crash", "broker": "1", "other": "", "at_ms": "1000", "for_ms": "4500"}])
"""Faults that the form shows first."""


def parse_faults(query: QueryParams) -> OwnFaults | None:
    """Parse the faults of an address or a form; None if there are none.

    Raises:
        InvalidDrill: the faults of an address cannot be parsed.
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
    # Fields that a fault does not use may still have values from the row's earlier fault.
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
        raise InvalidDrill(f"the faults are {len(text):,} characters long; at most {LONGEST:,} are allowed.")
    rows = []
    for number, each in enumerate(filter(None, (part.strip() for part in text.split(","))), 1):
        words = each.split()
        if not 3 <= len(words) <= 4:
            raise InvalidDrill(
                f"fault {number} is {each[:60]!r}: it must be fault, broker, at_ms and for_ms, "
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
