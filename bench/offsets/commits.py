"""Many offset commits: OffsetCommit requests over many connections at once.

A broker answers one request of a connection at a time, and waits a few milliseconds to write many commits at once;
so throughput comes from connections, not from requests in flight on one. The code speaks the protocol itself: a
client library has one group per instance. Source: Kafka 4.1,
`clients/src/main/resources/common/message/OffsetCommitRequest.json`, version 6.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_OFFSET_COMMIT, _VERSION = 8, 6
_CONNECTIONS = 64
# The coordinator's partition is being loaded, or is not there yet.
_AGAIN = frozenset({14, 15, 16})
_AGAIN_SECONDS = 0.1
_TRIES = 300


@dataclass(frozen=True, kw_only=True)
class Committers:
    """Groups that each commit `commits` times, partition after partition, in rounds of rising offsets."""

    groups: int
    commits: int
    ends: Mapping[int, int]
    """Partition -> log end offset."""

    def name(self, group: int) -> str:
        """Return the name of a group."""
        return f"app-{group:05d}"

    def final(self, group: int) -> dict[int, int]:
        """Return partition -> last committed offset of the group: a tenth at the log's end, others anywhere.

        That is more offsets to look up than any real cluster has, whose groups are mostly near the ends.
        """
        source = random.Random(group)
        drawn = {p: end if source.random() < 0.1 else source.randrange(end + 1) for p, end in self.ends.items()}
        return dict(list(drawn.items())[: self.commits])

    def rounds(self, group: int) -> Iterator[dict[int, int]]:
        """Yield the group's commits, request by request."""
        final = self.final(group)
        count = -(-self.commits // len(self.ends))
        left = self.commits
        for number in range(1, count + 1):
            some = list(final.items())[:left]
            left -= len(some)
            # The last one of a partition is in the last round, or in the one before if the last is not full.
            last = {p: count if place < self.commits - (count - 1) * len(self.ends) else count - 1
                    for place, p in enumerate(final)}  # fmt: skip
            yield {p: offset * number // last[p] for p, offset in some}


def commit_all(servers: str, topic: str, committers: Committers) -> int:
    """Make all commits on a single-broker cluster; return how many were acknowledged.

    Raises SystemExit on a refusal.
    """
    host, port = servers.split(":")
    return asyncio.run(_commit_all(host, int(port), topic, committers))


async def _commit_all(host: str, port: int, topic: str, committers: Committers) -> int:
    shares = (range(first, committers.groups, _CONNECTIONS) for first in range(_CONNECTIONS))
    return sum(await asyncio.gather(*(_commit_some(host, port, topic, committers, share) for share in shares)))


async def _commit_some(host: str, port: int, topic: str, committers: Committers, share: range) -> int:
    if not share:
        return 0
    reader, writer = await asyncio.open_connection(host, port)
    made = 0
    # Groups take turns, as in reality: the commits of one are spread over the log.
    turns = [(committers.name(group), committers.rounds(group)) for group in share]
    while turns:
        still = []
        for name, rounds in turns:
            offsets = next(rounds, None)
            if offsets is not None:
                await _commit(reader, writer, request(name, topic, offsets))
                made += len(offsets)
                still.append((name, rounds))
        turns = still
    writer.close()
    return made


async def _commit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frame: bytes) -> None:
    for _ in range(_TRIES):
        writer.write(frame)
        (length,) = struct.unpack(">i", await reader.readexactly(4))
        errors = set(refusals(await reader.readexactly(length))) - {0}
        if not errors:
            return
        if not errors <= _AGAIN:
            break
        await asyncio.sleep(_AGAIN_SECONDS)
    raise SystemExit(f"the broker refuses commits: error codes {sorted(errors)}")


def request(group: str, topic: str, offsets: Mapping[int, int]) -> bytes:
    """Encode an OffsetCommit request with its length prefix, for a group without members."""
    partitions = b"".join(struct.pack(">iqih", p, offset, -1, 0) for p, offset in offsets.items())
    body = (
        struct.pack(">hhi", _OFFSET_COMMIT, _VERSION, 0) + _text("bench")
        + _text(group) + struct.pack(">i", -1) + _text("")
        + struct.pack(">i", 1) + _text(topic) + struct.pack(">i", len(offsets)) + partitions
    )  # fmt: skip
    return struct.pack(">i", len(body)) + body


def refusals(response: bytes) -> list[int]:
    """Return the error codes of the partitions in a response for one topic; 0 means none."""
    (name_bytes,) = struct.unpack_from(">h", response, 12)  # after correlation id, throttling, number of topics
    at = 14 + name_bytes
    (count,) = struct.unpack_from(">i", response, at)
    return [struct.unpack_from(">h", response, at + 8 + 6 * place)[0] for place in range(count)]


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
