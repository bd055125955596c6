"""The work of one task of a Spark job: ranges of logs on one cluster, as JSON, since source options are text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from backend.kafka.logs.log_ranges import BornIn, LogRange


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Ranges of one cluster's logs, with what is known about the records before each.

    Properties hold references to secrets, never secrets.
    """

    bootstrap_servers: str
    properties: Mapping[str, str]
    ranges: Sequence[tuple[LogRange, BornIn]]

    @property
    def size(self) -> int:
        """Return the number of offsets to read."""
        return sum(one.end - one.first for one, _ in self.ranges)


def cut(slices: Iterable[Slice], tasks: int) -> list[Slice]:
    """Divide each cluster's ranges into at most `tasks` slices of about equal size."""
    found: list[Slice] = []
    for whole in slices:
        parts: list[list[tuple[LogRange, BornIn]]] = [[] for _ in range(min(tasks, len(whole.ranges)))]
        sizes = [0] * len(parts)
        for each in sorted(whole.ranges, key=lambda pair: pair[0].first - pair[0].end):
            smallest = sizes.index(min(sizes))
            parts[smallest].append(each)
            sizes[smallest] += each[0].end - each[0].first
        found += [
            Slice(bootstrap_servers=whole.bootstrap_servers, properties=whole.properties, ranges=part)
            for part in parts
        ]
    return found


def encode(slices: Iterable[Slice]) -> str:
    """Encode slices for the source's option `slices`."""
    return json.dumps([_plain(one) for one in slices])


def _plain(one: Slice) -> dict[str, Any]:
    return {
        "bootstrap_servers": one.bootstrap_servers,
        "properties": dict(one.properties),
        "ranges": [[asdict(log_range), _plain_born(born)] for log_range, born in one.ranges],
    }


def _plain_born(born: BornIn) -> dict[str, Any]:
    plain = asdict(born)
    plain["seen"] = [[number, *reached] for number, reached in born.seen.items()]
    plain["known_origins"], plain["holes"] = sorted(born.known_origins), sorted(born.holes)
    return plain


def decode(text: str) -> list[Slice]:
    """Decode slices from the option's text."""
    return parsed(json.loads(text))


def parsed(plain: Iterable[Mapping[str, Any]]) -> list[Slice]:
    """Build slices from decoded JSON."""
    return [
        Slice(
            bootstrap_servers=one["bootstrap_servers"],
            properties=one["properties"],
            ranges=[(LogRange(**log_range), _born(born)) for log_range, born in one["ranges"]],
        )
        for one in plain
    ]


def _born(plain: dict[str, Any]) -> BornIn:
    return BornIn(
        **{
            **plain,
            "births": tuple((first, incarnation) for first, incarnation in plain["births"]),
            "seen": {number: (incarnation, offset) for number, incarnation, offset in plain["seen"]},
            "known_origins": frozenset(plain["known_origins"]),
            "holes": frozenset((number, incarnation, offset) for number, incarnation, offset in plain["holes"]),
        }
    )
