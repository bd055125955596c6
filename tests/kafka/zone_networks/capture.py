"""Independent count of all frames that a router receives from the zones.

`python -m tests.kafka.zone_networks.capture PLAN` runs in the router's network namespace and starts before any
client. The plan is JSON: `zones` (address -> zone), `planes` (address:port of a listener -> its plane), `kafka`
(the planes whose requests are counted by kind). Commands on standard input: `watch STRING` searches for a string
from now on, `report` prints the counts. Frames are counted once, where they enter. Traffic to the router itself is
not traffic between zones.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.zones.flows import Conversation, End, Finder, Segment, Stream, addresses, segment

# linux/if_packet.h, linux/if_ether.h, asm-generic/socket.h
_ALL = 0x0003
_SOL_PACKET, _STATISTICS, _IGNORE_OUTGOING = 263, 6, 23
_RECEIVE_BUFFER_FORCE = 33
_BUFFER_BYTES = 256 * 1024 * 1024
_FRAME_BYTES = 1 << 20
_FRAMES_A_TURN = 512


class Direction:
    """One direction of one connection between zones."""

    def __init__(self, key: tuple[str, str, str]) -> None:
        self.key = key
        self.stream, self.finder = Stream(), Finder()


class Count:
    """Bytes by (from zone, to zone, plane)."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._zones: dict[str, str] = plan["zones"]
        self._planes: dict[str, str] = plan["planes"]
        self._kafka: list[str] = plan["kafka"]
        self.watched: list[bytes] = []
        self.seen = {zone: [0, 0] for zone in self._zones.values()}  # bytes, frames
        self.sent: Counter[tuple[str, ...]] = Counter()  # payload, including retransmissions
        self.kinds: Counter[tuple[str, ...]] = Counter()  # payload of Kafka planes, each byte once
        self.found: Counter[tuple[str, ...]] = Counter()
        self._directions: dict[tuple[End, End], Direction] = {}
        self._conversations: dict[frozenset[End], Conversation] = {}

    def take(self, zone: str, frame: memoryview) -> None:
        """Count a frame that came from a zone."""
        seen = self.seen[zone]
        seen[0] += len(frame)
        seen[1] += 1
        ends = addresses(frame)
        target = self._zones.get(ends[1]) if ends else None
        if target is None:
            return
        if (found := segment(frame)) is not None:
            self._segment(zone, target, found)
        else:
            key = (zone, target, "not TCP")
            self.sent[key] += len(frame)
            self._look(key, Finder(), bytes(frame))

    def _segment(self, zone: str, target: str, found: Segment) -> None:
        ends = found.source, found.destination
        direction = self._directions.get(ends)
        if direction is None:
            direction = self._directions[ends] = Direction((zone, target, self._plane(ends)))
        if found.is_first:
            direction.finder = Finder()
            if self._asks(found.destination):
                self._conversations[frozenset(ends)] = Conversation()
        self.sent[direction.key] += len(found.payload)
        piece = direction.stream.take(found.sequence, found.is_first, found.payload)
        if not piece:
            return
        self._look(direction.key, direction.finder, piece)
        if direction.key[2] in self._kafka:
            talk = self._conversations[frozenset(ends)]
            frames = talk.requests if self._asks(found.destination) else talk.answers
            for kind, size in frames.take(piece).items():
                self.kinds[*direction.key, kind] += size

    def _asks(self, destination: End) -> bool:
        """Return whether this direction carries requests, which are sent to a listener, not responses."""
        return _named(destination) in self._planes

    def _plane(self, ends: tuple[End, End]) -> str:
        return next((self._planes[_named(end)] for end in ends if _named(end) in self._planes), "unknown")

    def _look(self, key: tuple[str, str, str], finder: Finder, piece: bytes) -> None:
        for canary in finder.look(piece, self.watched):
            self.found[canary.decode(), *key] += 1

    def early(self) -> int:
        """Return the number of bytes after a gap."""
        return sum(each.stream.early for each in self._directions.values())


def _named(end: End) -> str:
    return f"{end[0]}:{end[1]}"


class Links:
    """The router's links: their frames, and the counters that the kernel keeps of them."""

    def __init__(self, count: Count) -> None:
        self._count = count
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
        self._socket.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, _RECEIVE_BUFFER_FORCE, _BUFFER_BYTES)
        self._socket.setblocking(False)
        self._frame = memoryview(bytearray(_FRAME_BYTES))
        self._dropped = 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def read(self, most: int) -> bool:
        """Count available frames; return False if there were fewer than so many."""
        for _ in range(most):
            try:
                size, (link, *_) = self._socket.recvfrom_into(self._frame)
            except BlockingIOError:
                return False
            if size == _FRAME_BYTES:
                raise ValueError("a frame that is larger than any can be")
            if link in self._count.seen:
                self._count.take(link, self._frame[:size])
        return True

    def report(self) -> dict[str, Any]:
        """Report at a moment without a frame in flight, as only then counters and frames can be compared."""
        before = self._counters()
        while self.read(_FRAMES_A_TURN):
            pass
        statistics = self._socket.getsockopt(_SOL_PACKET, _STATISTICS, 8)
        self._dropped += int.from_bytes(statistics[4:8], sys.byteorder)  # reading resets them
        count = self._count
        return {
            "still": before == self._counters(),
            "dropped": self._dropped,
            "early": count.early(),
            "counters": before,
            "seen": count.seen,
            "sent": [[*key, size] for key, size in count.sent.items()],
            "kinds": [[*key, size] for key, size in count.kinds.items()],
            "found": [[*key, times] for key, times in count.found.items()],
        }

    def _counters(self) -> dict[str, list[int]]:
        """Return the received bytes and frames of each link."""
        rows = (line.replace(":", " ").split() for line in Path("/proc/self/net/dev").read_text().splitlines())
        return {row[0]: [int(row[1]), int(row[2])] for row in rows if row[0] in self._count.seen}


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    count = Count(json.loads(sys.argv[1]))
    links = Links(count)
    selector = selectors.DefaultSelector()
    selector.register(links, selectors.EVENT_READ)
    selector.register(sys.stdin, selectors.EVENT_READ)
    _say("counting")
    begun = b""
    while True:
        for key, _ in selector.select():
            if key.fileobj is links:
                links.read(_FRAMES_A_TURN)
                continue
            piece = os.read(sys.stdin.fileno(), 65536)
            if not piece:
                return
            *lines, begun = (begun + piece).split(b"\n")
            for line in lines:
                word, _, string = line.partition(b" ")
                if word == b"watch":
                    count.watched.append(string)
                _say(json.dumps(links.report() if word == b"report" else {}))


if __name__ == "__main__":
    main()
