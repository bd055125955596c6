"""Checks the fate of every record, from the histories of the clients and the logs of all clusters.

Operations: a producer gives a record to its client (acknowledged, failed, or reported as unknown); a group reads a
record; a client is on a cluster in a generation. Records have unique ids; each producer numbers its records, and
sends those of one key one after the other.

Anomalies looked for:
- lost: acknowledged, and not on some cluster.
- doubled: more than once on a cluster.
- phantom: on a cluster, but never sent; or reported as failed, and there (not if reported as unknown).
- disordered: before an earlier record of its key, in the log of a cluster that was active (elsewhere, order across
  a switch is not guaranteed: counted, no anomaly).
- unread: acknowledged, and never read by a group.
- read again: read by a group more than once.
- read out of order: read by a group before an earlier record of its key that it had not read.
- two clusters in one generation: clients that were on different clusters in the same generation.
- written elsewhere: the records of a key were not written to the active clusters, one after the other. The logs
  alone tell that: where a record was written it has no copy flags.

Plain consumers are moved by hand: they leave nothing unread, and may re-read what the plan stated (`read_again`).

After an emergency, order and single reading are not guaranteed: unreplicated records arrive late, and groups
resume at the last translated offsets. Then these anomalies are only counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Histories:
    """Histories that clients have recorded."""

    acknowledged: dict[str, str] = field(default_factory=dict)
    """Id -> key."""
    failed: dict[str, str] = field(default_factory=dict)
    """Id -> error."""
    unknown: set[str] = field(default_factory=set)
    """Ids of failed records that may nevertheless be on the old cluster."""
    waits: list[tuple[float, float]] = field(default_factory=list)
    """(time when a record was sent, time when it was acknowledged), by the wall clock of this machine."""
    given: int = 0
    stood: dict[int, set[str]] = field(default_factory=dict)
    """Generation -> clusters that clients were on in it."""
    arrivals: dict[int, list[float]] = field(default_factory=dict)
    """Generation -> times when clients entered it."""
    read: dict[str, list[str]] = field(default_factory=dict)
    """Group -> ids in the order in which it read them."""
    stock: dict[str, list[str]] = field(default_factory=dict)
    """Group of plain consumers -> ids in the order in which it read them."""


def histories(folder: Path) -> Histories:
    """Read all histories in a folder."""
    found = Histories()
    for file in sorted(folder.glob("*.jsonl")):
        ids: list[str] = []
        for line in file.read_text().splitlines():
            row = json.loads(line)
            if "generation" in row:
                found.stood.setdefault(row["generation"], set()).add(row["cluster"])
                found.arrivals.setdefault(row["generation"], []).append(row["at"])
            elif "sent" in row:
                found.given += row["sent"]
            elif "read" in row:
                ids += row["read"]
            elif row["error"] is None:
                found.acknowledged[row["id"]] = row["key"]
                found.waits.append((row["given"], row["told"]))
            else:
                found.failed[row["id"]] = row["error"]
                found.unknown |= {row["id"]} if row["unknown"] else set()
        if file.name.startswith("group-"):
            found.read[file.stem] = ids
        elif file.name.startswith("stock-"):
            found.stock[file.stem] = ids
    return found


def anomalies(
    seen: Histories, logs: Mapping[str, Sequence[Sequence[str]]], active: Iterable[str], *, emergency: bool = False
) -> tuple[list[str], dict[str, int]]:
    """Return (all anomalies, other counts). `logs`: cluster -> ids of each partition in log order."""
    found: list[str] = []
    active = set(active)
    counted = {"disordered_elsewhere": 0, "disordered_late": 0, "read_again": 0, "read_out_of_order": 0}
    known = seen.acknowledged.keys() | seen.unknown
    for cluster, partitions in logs.items():
        count = Counter(one for partition in partitions for one in partition)
        found += [f"lost: {one} is not on {cluster}" for one in seen.acknowledged.keys() - count.keys()]
        found += [f"doubled: {one} is {n} times on {cluster}" for one, n in count.items() if n > 1]
        found += [f"phantom: {one} is on {cluster}" for one in count.keys() - known]
        late = [each for partition in partitions for each in _out_of_order(partition)]
        if cluster in active and not emergency:
            found += [f"disordered: {later} before {earlier} on {cluster}" for later, earlier in late]
        else:
            counted["disordered_late" if cluster in active else "disordered_elsewhere"] += len(late)
    for group, ids in seen.read.items():
        count = Counter(ids)
        again = {one: n for one, n in count.items() if n > 1}
        disordered = _out_of_order(list(dict.fromkeys(ids)))
        counted["read_again"] += sum(n - 1 for n in again.values())
        counted["read_out_of_order"] += len(disordered)
        found += [f"unread: {one} by {group}" for one in seen.acknowledged.keys() - count.keys()]
        if not emergency:
            found += [f"read again: {one}, {n} times, by {group}" for one, n in again.items()]
            found += [f"read out of order: {later} before {earlier} by {group}" for later, earlier in disordered]
    for group, ids in seen.stock.items():
        found += [f"unread: {one} by {group}" for one in seen.acknowledged.keys() - set(ids)]
    for generation, clusters in sorted(seen.stood.items()):
        if len(clusters) > 1:
            found.append(f"two clusters in generation {generation}: {', '.join(sorted(clusters))}")
    return found, counted


def read_again(seen: Histories, switch: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return for each plain group how many records it re-read, and the bounds of its switch's plan and report."""
    found = []
    for name, ids in sorted(seen.stock.items()):
        stated = [
            group
            for item in switch["plan"]["items"]
            for group in item["groups"]
            if group["group"].rpartition("/")[2] == name
        ]
        bounds = [group["re_read_bound"] for group in stated]
        found.append(
            {
                "group": name,
                "read_again": len(ids) - len(set(ids)),
                "stated": None if None in bounds else sum(bounds),
                "reported": switch["report"]["re_read_bound"],
                "estimates": sorted({group["re_read_estimate"] for group in stated} - {None}),
            }
        )
    return found


def written_elsewhere(born: Mapping[str, str], way: Sequence[str]) -> list[str]:
    """Return the records that were written to a cluster while it was not active.

    `born`: id -> cluster; `way`: the active clusters, one after the other.
    """
    by_key: dict[str, list[tuple[int, str]]] = {}
    for one, cluster in born.items():
        key, sequence = key_of(one)
        by_key.setdefault(key, []).append((sequence, cluster))
    found = []
    for key, rows in sorted(by_key.items()):
        step = 0
        for sequence, cluster in sorted(rows):
            while step < len(way) and way[step] != cluster:
                step += 1
            if step == len(way):
                found.append(
                    f"written elsewhere: {key} number {sequence} on {cluster}, active were {', '.join(way)}"
                )
                break
    return found


def _out_of_order(ids: Sequence[str]) -> list[tuple[str, str]]:
    """Return (later, earlier) where a record is before an earlier one of its key."""
    found = []
    highest: dict[str, int] = {}
    for one in ids:
        key, sequence = key_of(one)
        before = highest.get(key, -1)
        if sequence < before:
            found.append((f"{one.partition(':')[0]}:{before}", one))
        highest[key] = max(before, sequence)
    return found


def key_of(one: str) -> tuple[str, int]:
    """Return (key, number within the producer) of an id; keys take turns."""
    producer, _, number = one.partition(":")
    return f"{producer}-{int(number) % 25}", int(number)
