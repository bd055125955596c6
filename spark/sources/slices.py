"""The work of one task of a Spark job: ranges of logs on one cluster, as JSON, since source options are text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from backend.kafka.logs.log_ranges import LogRange, OriginContext


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Ranges of one cluster's logs, with what is known about the records before each.

    Properties hold references to secrets, never secrets.
    """

    bootstrap_servers: str
    properties: Mapping[str, str]
    ranges: Sequence[tuple[LogRange, OriginContext]]

    @property
    def size(self) -> int:
        """Return the number of offsets to read."""
        return sum(one.end - one.first for one, _ in self.ranges)


def cut(slices: Iterable[Slice], tasks: int) -> list[Slice]:
    """Divide each cluster's ranges into at most `tasks` slices of about equal size."""
    found: list[Slice] = []
    for whole in slices:
        parts: list[list[tuple[LogRange, OriginContext]]] = [[] for _ in range(min(tasks, len(whole.ranges)))]
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
        "ranges": [
            [asdict(log_range), _plain_context(origin_context)] for log_range, origin_context in one.ranges
        ],
    }


def _plain_context(origin_context: OriginContext) -> dict[str, Any]:
    plain = asdict(origin_context)
    plain["births"] = plain.pop("incarnations")  # as in the job's documented input
    plain["seen"] = [[number, *reached] for number, reached in origin_context.seen.items()]
    plain["known_origins"], plain["holes"] = sorted(origin_context.known_origins), sorted(origin_context.holes)
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
            ranges=[
                (LogRange(**log_range), _origin_context(origin_context))
                for log_range, origin_context in one["ranges"]
            ],
        )
        for one in plain
    ]


def _origin_context(plain: dict[str, Any]) -> OriginContext:
    return OriginContext(
        **{
            **{name: each for name, each in plain.items() if name != "births"},
            "incarnations": tuple((first, incarnation) for first, incarnation in plain["births"]),
            "seen": {number: (incarnation, offset) for number, incarnation, offset in plain["seen"]},
            "known_origins": frozenset(plain["known_origins"]),
            "holes": frozenset((number, incarnation, offset) for number, incarnation, offset in plain["holes"]),
        }
    )
