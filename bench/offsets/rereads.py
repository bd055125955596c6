"""Re-reads after a switch: Treeline's exact mode and MirrorMaker 2's checkpoints, on the same records and groups.

An estate of two clusters is booted; all records are produced on cluster-1. Treeline copies them to the stream's
topic on cluster-2, MirrorMaker 2 at the same time to a topic of its own. Groups commit on cluster-1 as they
advance, each at its distance behind the end: first while records come fast, then while they trickle, then a last
time. When everything has settled, each group is switched to Treeline's topic and to MirrorMaker 2's: what it reads
there from the offset that it was given is counted, record by record. All records must be in both copies, once.
"Commit to applied" is the time from a group's last commit until its final offset stood on cluster-2, in all
partitions, by both brokers' clocks (one machine, one clock); a dash where it stood there before.

The run fails if Treeline lets a group read a record again, or skips one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import checkpoints
import httpx2
from confluent_kafka.admin import AdminClient
from local_estates import Estate, estate
from switching import Following, Numbered, commits, read_numbers, stands, switch

ESTATE = Path(__file__).with_name("pair.yaml")
SOURCE, TARGET = "cluster-1", "cluster-2"
STREAM, PREFIX, PARTITIONS = "bench/offsets/exact/records", "bench-offsets-exact", 4
LAGS = (0, 5_000, 100_000)
"""Numbers of records behind the ends, over all partitions."""
FIRST_RECORDS, FAST_PER_SECOND, SLOW_PER_SECOND, SLOW_SECONDS = 400, 8_000, 200, 10
STEP_SECONDS = 0.5
COMMIT_STEPS = 2
"""A group commits in one of this many steps."""
QUIET_SECONDS = 5 * checkpoints.INTERVAL_SECONDS
_GIVE_UP_SECONDS = 120


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result for one group and one contender, in records over all partitions."""

    re_read: int
    skipped: int
    applied_seconds: float | None
    without_offset: int
    """Partitions for which the contender gave no offset: they are read from the first record."""

    def cells(self) -> str:
        """Return the cells of the table row."""
        again = f"{self.re_read:,}"
        if self.without_offset:
            again += f" (no checkpoint of {self.without_offset} partitions: all again)"
        seconds = "-" if self.applied_seconds is None else f"{self.applied_seconds:.1f} s"
        return f"{again} | {self.skipped:,} | {seconds}"


@dataclass(frozen=True)
class Place:
    """Bootstrap servers of both clusters, and the copies' topics on the target."""

    source: str
    target: str
    ours: str
    mirrored: str
    admin: AdminClient
    """Admin client of the target."""

    def stands(self, group: Following, topic: str) -> dict[int, int]:
        """Return partition -> the group's offset on the target; partitions without one are left out."""
        return stands(self.admin, group.name, topic, range(PARTITIONS))


def run(folder: Path, count: int) -> None:
    """Boot, measure, print. `folder` gets MirrorMaker 2's log."""
    if count < 2 * max(LAGS):
        raise SystemExit(f"groups {max(LAGS):,} records behind need at least {2 * max(LAGS):,}")
    with estate(ESTATE) as running:
        running.up("--no-verify", "--while-pid", str(os.getpid()))
        _measure(running, folder, count)


def _measure(running: Estate, folder: Path, count: int) -> None:
    client = running.client()
    topics = _until(lambda: _technical_names(client), "the stream's topics are there")
    clusters = running.status()["clusters"]
    source, target = (clusters[name]["bootstrap_servers"] for name in (SOURCE, TARGET))
    job = checkpoints.job(source, target, topics[SOURCE], PARTITIONS, folder)
    admin = AdminClient({"bootstrap.servers": target})
    place = Place(source, target, topics[TARGET], job.target_topic, admin)
    producer = Numbered(source, topics[SOURCE], PARTITIONS)
    groups = [Following(source, f"{PREFIX}-lag{lag}", topics[SOURCE], lag) for lag in LAGS]
    producer.make(FIRST_RECORDS)
    for group in groups:
        group.go_on(dict.fromkeys(producer.ends, 0))  # MirrorMaker 2 looks for groups when it starts
    copier = checkpoints.mirror().start(job)
    try:
        _until(lambda: _all_there(place, producer.ends), "both copies have begun")
        _go_forward(producer, groups, count - FIRST_RECORDS)
        _until(lambda: _settled(client, groups), "Treeline has applied the last commits")
        _until_quiet(place, groups)
        copier.check()
        _until(lambda: _all_there(place, producer.ends), "both copies have all records, once")
        _report(place, groups, producer.ends, count)
    finally:
        copier.stop()
        for group in groups:
            group.close()


def _go_forward(producer: Numbered, groups: Sequence[Following], count: int) -> None:
    """Produce `count` records, fast at first and slowly at the end, while the groups commit."""
    slow = min(count, SLOW_PER_SECOND * SLOW_SECONDS)
    for some, rate in ((count - slow, FAST_PER_SECOND), (slow, SLOW_PER_SECOND)):
        began, step, made = time.monotonic(), 0, 0
        while made < some:
            step += 1
            now = min(int(rate * STEP_SECONDS), some - made)
            producer.make(now)
            made += now
            if step % COMMIT_STEPS == 0:
                for group in groups:
                    group.go_on(producer.ends)
            time.sleep(max(0.0, began + step * STEP_SECONDS - time.monotonic()))
    for group in groups:
        group.go_on(producer.ends)


def _technical_names(client: httpx2.Client) -> Mapping[str, str] | None:
    tenant, instance, environment, name = STREAM.split("/")
    path = f"/tenants/{tenant}/instances/{instance}/environments/{environment}/streams/{name}"
    stream = client.get(path).raise_for_status().json()
    return stream["technical_names"] if set(stream["applied"].values()) == {"applied"} else None


def _settled(client: httpx2.Client, groups: Sequence[Following]) -> bool:
    """Tell whether every last commit is applied on the target, which has everything that the groups have read."""
    for group in groups:
        asked = {"cluster": SOURCE, "group": group.name, "stream": STREAM}
        items = client.get("/offsets", params=asked).raise_for_status().json()["items"]
        done = {
            item["partition"]: item["committed_offset"]
            for item in items
            for row in item["elsewhere"]
            if row["cluster"] == TARGET and row["state"] == "applied" and row["settled"]
        }
        if done != group.committed:
            return False
    return True


def _until_quiet(place: Place, groups: Sequence[Following]) -> None:
    """Wait until MirrorMaker 2 has reported nothing new about any group for several intervals."""
    last: Any = None
    since = began = time.monotonic()
    while time.monotonic() - since < QUIET_SECONDS:
        now = [place.stands(group, place.mirrored) for group in groups]
        if now != last:
            last, since = now, time.monotonic()
        if time.monotonic() - began > _GIVE_UP_SECONDS:
            raise SystemExit("MirrorMaker 2's offsets do not come to rest")
        time.sleep(1)


def _all_there(place: Place, ends: Mapping[int, int]) -> bool:
    """Tell whether both copies have every record once, in order. Raises SystemExit if one is duplicated."""
    for topic in (place.ours, place.mirrored):
        found = read_numbers(place.target, topic, dict.fromkeys(ends))
        for partition, numbers in found.items():
            if numbers != list(range(len(numbers))):
                raise SystemExit(f"{topic}, partition {partition}: a record is lost, doubled or out of order")
        if any(len(found[partition]) < end for partition, end in ends.items()):
            return False
    return True


def _report(place: Place, groups: Sequence[Following], ends: Mapping[int, int], count: int) -> None:
    """Switch every group, and print the table."""
    ours = [_outcome(place, place.ours, group, ends, {}) for group in groups]
    told = checkpoints.written(place.target)
    mirrored = [_outcome(place, place.mirrored, group, ends, told) for group in groups]
    print(f"\n| {count:,} records, groups switched | Treeline, exact | | | MirrorMaker 2 | | |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    columns = "read again | skipped | commit to applied"
    print(f"| records behind the end | {columns} | {columns} |")
    for group, mine, theirs in zip(groups, ours, mirrored, strict=True):
        print(f"| {group.lag:,} | {mine.cells()} | {theirs.cells()} |")
    bad = [group.name for group, mine in zip(groups, ours, strict=True) if mine.re_read or mine.skipped]
    if bad:
        raise SystemExit(f"Treeline lets records come again, or skips some: {', '.join(bad)}")


def _outcome(
    place: Place, topic: str, group: Following, ends: Mapping[int, int], told: Mapping[tuple[str, str, int], int]
) -> Outcome:
    """Switch a group to a copy. `told`: checkpoints, used where no offset was set: tools can set it."""
    starts = {each: told.get((group.name, topic, each)) for each in ends}
    starts |= place.stands(group, topic)
    re_read, skipped = switch(place.target, topic, starts, group.committed, ends)
    return Outcome(
        re_read=re_read,
        skipped=skipped,
        applied_seconds=_applied_seconds(place, topic, group, starts),
        without_offset=sum(start is None for start in starts.values()),
    )


def _applied_seconds(place: Place, topic: str, group: Following, starts: Mapping[int, int | None]) -> float | None:
    """Return the seconds from the last commit until its offset stood on the target; None if it did before."""
    made, applied = commits(place.source, group.topic), commits(place.target, topic)
    began = max(made[group.name, partition][-1].committed_at_ms for partition in starts)
    ended = 0
    for partition, start in starts.items():
        rows = applied.get((group.name, partition), [])
        standing = list(takewhile(lambda row, at=start: row.offset == at, reversed(rows)))
        ended = max(ended, standing[-1].committed_at_ms if standing else 0)
    return (ended - began) / 1000 if ended > began else None


def _until(look: Callable[[], Any], what: str) -> Any:
    """Return the first true value. Raises SystemExit if there is none for long."""
    deadline = time.monotonic() + _GIVE_UP_SECONDS
    while not (found := look()):
        if time.monotonic() > deadline:
            raise SystemExit(f"it never came true that {what}")
        time.sleep(0.5)
    return found
