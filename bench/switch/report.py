"""Report of a part of the bench, judged against its limits."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any

from checker import Histories
from clients import RECORDS_PER_SECOND

MOST_UNAVAILABLE_SECONDS, MOST_EMERGENCY_SECONDS = 2.0, 5.0
_SHOWN = 200


def make(
    part: str,
    seen: Histories,
    found: list[str],
    counted: dict[str, int],
    switches: list[dict[str, Any]],
    again: list[dict[str, Any]],
) -> dict[str, Any]:
    """Return the report as it is stored."""
    missed = [f"{row['id']}: {row['state']} {row['reason']}" for row in switches if row["state"] != "completed"]
    missed += [
        f"{row['group']} read {row['read_again']} records again, {row['stated']} were stated"
        for row in again
        if not row["estimates"] and row["read_again"] > (row["stated"] or 0)
    ]
    told: dict[str, Any] = {
        "part": part,
        "records_given": seen.given,
        "acknowledged": len(seen.acknowledged),
        "failed": len(seen.failed) - len(seen.unknown),
        "unknown": len(seen.unknown),
        "anomalies": found[:_SHOWN],
        "anomalies_count": len(found),
        **counted,
        "limits_missed": missed,
        "switches": switches,
        "plain_groups": again,
    }
    if part == "planned":
        waits = [_longest_wait(seen, row) for row in switches]
        missed += ["no record was given during the switch" for s in waits if s is None]
        waits = [s for s in waits if s is not None]
        missed += [f"a record waited {s:.2f} s" for s in waits if s > MOST_UNAVAILABLE_SECONDS]
        told["longest_waits_s"] = [round(s, 3) for s in waits]
    else:
        (row,) = switches
        commanded = datetime.fromisoformat(row["commanded"]).timestamp()
        took = max(seen.arrivals.get(row["generation"], [float("inf")])) - commanded
        told["all_there_s"] = round(took, 3)
        if took > MOST_EMERGENCY_SECONDS:
            missed.append(f"the last client was there after {took:.2f} s")
        if row["stranded_arrived"] is None:
            missed.append("what was stranded has not arrived")
    return told


def _longest_wait(seen: Histories, row: dict[str, Any]) -> float | None:
    """Return the longest time to an acknowledgement of records sent during a switch; None if there is none."""
    began = datetime.fromisoformat(row["phases"][0]["started_at"]).timestamp() - 1
    ended = datetime.fromisoformat(row["phases"][-1]["ended_at"]).timestamp() + 1
    return max((told - given for given, told in seen.waits if began < given < ended), default=None)


def show(told: dict[str, Any], groups: int) -> None:
    """Print the report as a Markdown table."""
    rows = [("records given; acknowledged; failed; outcome unknown", _numbers(told), "")]
    if told["part"] == "planned":
        held = [row["report"]["producers_held_ms"] for row in told["switches"] if row["report"]]
        waits = told["longest_waits_s"]
        title = f"{len(waits)} planned switches"
        limit = f"{MOST_UNAVAILABLE_SECONDS:g} s (reference: 60 s x distance)"
        rows += [
            ("longest wait of a record for its acknowledgement, median", _seconds(waits, statistics.median), ""),
            ("the same, worst switch", _seconds(waits, max), limit),
            ("producers held, median; worst", f"{statistics.median(held):.0f}; {max(held)} ms", ""),
            ("read again by all groups together", f"{told['read_again']}", "0"),
            ("out of order on clusters never active (not promised)", f"{told['disordered_elsewhere']}", ""),
        ]
    else:
        title = "an emergency"
        arrived = told["switches"][0]["stranded_arrived"] or {}
        rows += [
            ("all clients on the other cluster", f"{told['all_there_s']:.2f} s", f"{MOST_EMERGENCY_SECONDS:g} s"),
            ("records that came once the cluster was back", f"{arrived.get('records')}", ""),
            ("read again by all groups together (not promised)", f"{told['read_again']}", ""),
            ("late, and so out of order, on the other cluster (not promised)", f"{told['disordered_late']}", ""),
        ]
    for row in told["plain_groups"]:
        limit = f"plan {row['stated']}, report {row['reported']}"
        limit += "".join(f"; an estimate: {why}" for why in row["estimates"])
        rows.append((f"read again by the plain group {row['group']}", f"{row['read_again']}", limit))
    rows.append(("anomalies", f"{told['anomalies_count']}", "0"))
    print(f"| {title}, {RECORDS_PER_SECOND:,} records/s, {groups} groups | measured | limit |")
    print("|---|---:|---:|")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print()
    for each in [*told["limits_missed"], *told["anomalies"][:20]]:
        print(each, file=sys.stderr)


def _seconds(waits: list[float], of: Callable[[list[float]], float]) -> str:
    return f"{of(waits):.2f} s" if waits else "none"


def _numbers(told: dict[str, Any]) -> str:
    return "; ".join(f"{told[name]:,}" for name in ("records_given", "acknowledged", "failed", "unknown"))
