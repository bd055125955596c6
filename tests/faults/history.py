"""The recorded history of a run: every send with its unique id, what was in it, and what became of it.

What a record holds follows from the run's seed and its id alone (`draft`), so the history keeps only a
fingerprint of each, and a run can be repeated from its seed. The id travels in the value, the key or a header,
so that records without value, key or headers have one too.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from enum import Enum
from random import Random

from confluent_kafka import Message

from backend.verification import marks
from backend.verification.marks import Mark

Header = tuple[str, bytes | None]

FLAGS, ORIGIN, ID = "copy-flags", "copy-origin", "id"
OURS = frozenset({FLAGS, ORIGIN})
_END_OF_MARK = b"|"
MANY_HEADERS_EVERY = 1000
_DAY_MS = 86_400_000


class Outcome(Enum):
    """What became of a send, as its producer was told."""

    UNKNOWN = "unknown"
    OK = "ok"
    FAILED = "failed"
    ABORTED = "aborted"


@dataclass(frozen=True)
class Draft:
    """A record to send; `timestamp_ms` None leaves the time to the producer. `ours` pretend to be Treeline's."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None
    others: tuple[Header, ...]
    ours: tuple[Header, ...] = ()

    def fingerprint(self) -> int:
        return fingerprint(self.key, self.value, self.others)


@dataclass(slots=True)
class Send:
    """One send. `lane` is the producer: what it sends to a partition stays in order."""

    lane: int
    partition: int
    fingerprint: int
    timestamp_ms: int | None
    outcome: Outcome = Outcome.UNKNOWN


class History:
    """All sends of one run; any thread may add. A record's id is its place in its cluster's list."""

    def __init__(self, seed: int, clusters: list[str]) -> None:
        self.seed = seed
        self.run = f"{seed:x}"
        self.began_ms = time.time_ns() // 1_000_000
        self.sends: dict[str, list[Send]] = {cluster: [] for cluster in clusters}
        self._lock = threading.Lock()
        self._lanes = 0

    def new_lane(self) -> int:
        """A number for a new producer."""
        with self._lock:
            self._lanes += 1
            return self._lanes

    def begin(self, cluster: str, lane: int, partition: int) -> tuple[Send, Draft]:
        """Note a send before it is made: whatever happens then, its outcome is at least unknown."""
        sends = self.sends[cluster]
        with self._lock:
            sequence = len(sends)
            made = draft(self.seed, self.run, cluster, sequence, self.began_ms)
            send = Send(lane, partition, made.fingerprint(), made.timestamp_ms)
            sends.append(send)
        return send, made

    def redraft(self, cluster: str, sequence: int) -> Draft:
        """What a send held."""
        return draft(self.seed, self.run, cluster, sequence, self.began_ms)

    def mark(self, message: Message) -> Mark | None:
        """The id of a record; None if it is not of this run."""
        texts = [value for name, value in message.headers() or () if name == ID]
        for text in (*texts, message.value(), message.key()):
            found = marks.decode(text and text.partition(_END_OF_MARK)[0])
            if found is not None:
                return found if found.run == self.run else None
        return None

    def counts(self) -> dict[str, int]:
        """How many sends had which outcome."""
        every = [send.outcome for sends in self.sends.values() for send in sends]
        return {outcome.value: every.count(outcome) for outcome in Outcome}


def fingerprint(key: bytes | None, value: bytes | None, headers: tuple[Header, ...]) -> int:
    """Of everything in a record that has to arrive as it was, but its time."""
    return hash((key, value, headers))


def draft(seed: int, run: str, cluster: str, sequence: int, began_ms: int) -> Draft:
    """The record of an id: most are plain, some are everything that Kafka allows."""
    rng = Random(f"{seed}:{cluster}:{sequence}")
    mark = marks.encode(Mark(run, cluster, sequence))
    value: bytes | None = mark + _END_OF_MARK + rng.randbytes(rng.randrange(20, 200))
    key: bytes | None = b"k%d" % rng.randrange(1000)
    others: tuple[Header, ...] = ()
    ours: tuple[Header, ...] = ()
    if rng.random() < 0.2:
        match rng.randrange(9):
            case 0:
                key, value = mark, None
            case 1:
                key, value = None, mark
            case 2:
                key, value, others = None, None, ((ID, mark),)
            case 3:
                key, value, others = b"", b"", ((ID, mark), ("empty", b""), ("nothing", None))
            case 4:
                others = (("b", b"\x00\xff"), ("a", b"1"), ("b", None), ("a", b""))
            case 5:
                ours = ((FLAGS, rng.choice([b"", b"\x01", b"\x00" * 5, None])),)
            case 6:
                ours = ((FLAGS, b"\x00\x00\x00\x01"), (FLAGS, b"\x00\x00\x00\x01"))
            case 7:
                ours = ((ORIGIN, rng.randbytes(rng.choice([0, 26, 27]))),)
            case _:
                others = tuple((f"h{number}", b"%d" % number) for number in range(20))
    if sequence % MANY_HEADERS_EVERY == 100:
        others = (*others, *((f"h{number}", b"%d" % number) for number in range(1000 - len(others))))
    when: int | None = began_ms + rng.randrange(1000)
    match rng.randrange(20):
        case 0:
            when = None
        case 1:
            when = began_ms - rng.randrange(_DAY_MS)
        case 2:
            when = began_ms + rng.randrange(30 * 60_000)
    return Draft(key, value, when, others, ours)
