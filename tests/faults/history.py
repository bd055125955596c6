"""The recorded history of a run: every send with its unique id, its content, and its outcome.

The content of a record follows from the run's seed and its id alone (`draft`), so the history keeps only a
fingerprint of each, and a run can be repeated from its seed. The id is in the value, the key or a header, so that
records without value, key or headers have one too.
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
    """Outcome of a send, as reported to its producer."""

    UNKNOWN = "unknown"
    OK = "ok"
    FAILED = "failed"
    ABORTED = "aborted"


@dataclass(frozen=True)
class Draft:
    """A record to send; with `timestamp_ms` None the producer sets the time. `ours` imitate Treeline's headers."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None
    others: tuple[Header, ...]
    ours: tuple[Header, ...] = ()

    def fingerprint(self) -> int:
        return fingerprint(self.key, self.value, self.others)


@dataclass(slots=True)
class Send:
    """One send. `lane` is the producer: its records in a partition stay in order."""

    lane: int
    partition: int
    fingerprint: int
    timestamp_ms: int | None
    outcome: Outcome = Outcome.UNKNOWN


class History:
    """All sends of one run; thread-safe. A record's id is its place in its cluster's list."""

    def __init__(self, seed: int, clusters: list[str]) -> None:
        self.seed = seed
        self.run = f"{seed:x}"
        self.began_ms = time.time_ns() // 1_000_000
        self.sends: dict[str, list[Send]] = {cluster: [] for cluster in clusters}
        self._lock = threading.Lock()
        self._lanes = 0

    def new_lane(self) -> int:
        """Return a number for a new producer."""
        with self._lock:
            self._lanes += 1
            return self._lanes

    def begin(self, cluster: str, lane: int, partition: int) -> tuple[Send, Draft]:
        """Note a send before it is made, so that its outcome is unknown at least, whatever happens then."""
        sends = self.sends[cluster]
        with self._lock:
            sequence = len(sends)
            made = draft(self.seed, self.run, cluster, sequence, self.began_ms)
            send = Send(lane, partition, made.fingerprint(), made.timestamp_ms)
            sends.append(send)
        return send, made

    def redraft(self, cluster: str, sequence: int) -> Draft:
        """Return the content of a send."""
        return draft(self.seed, self.run, cluster, sequence, self.began_ms)

    def mark(self, message: Message) -> Mark | None:
        """Return the id of a record; None if it does not belong to this run."""
        texts = [value for name, value in message.headers() or () if name == ID]
        for text in (*texts, message.value(), message.key()):
            found = marks.decode(text and text.partition(_END_OF_MARK)[0])
            if found is not None:
                return found if found.run == self.run else None
        return None

    def counts(self) -> dict[str, int]:
        """Return the number of sends by outcome."""
        every = [send.outcome for sends in self.sends.values() for send in sends]
        return {outcome.value: every.count(outcome) for outcome in Outcome}


def fingerprint(key: bytes | None, value: bytes | None, headers: tuple[Header, ...]) -> int:
    """Return a fingerprint of everything in a record that must arrive unchanged, except its timestamp."""
    return hash((key, value, headers))


def draft(seed: int, run: str, cluster: str, sequence: int, began_ms: int) -> Draft:
    """Return the record of an id: most are plain, some use everything that Kafka allows."""
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
