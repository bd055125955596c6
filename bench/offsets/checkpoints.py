"""Peer of the re-read benchmark: MirrorMaker 2 with checkpoints, which sets offsets of idle groups.

Settings are defaults, except what the documentation says must be enabled, and the intervals of checkpoints and of
setting offsets: 5 s each instead of 60, to keep the benchmark short. That makes MirrorMaker 2 more exact, never
less. Source: Kafka 4.1, "Geo-Replication", MirrorCheckpointConfig; records of the checkpoints topic:
`connect/mirror-client/.../Checkpoint.java`.
"""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass
from pathlib import Path

# After this folder, whose modules share some names with it.
sys.path.append(str(Path(__file__).resolve().parent.parent / "distribution"))

import records
from copiers import Job, MirrorMaker

INTERVAL_SECONDS = 5
_ALIAS = "mm2"


@dataclass(frozen=True)
class CheckpointingMirrorMaker(MirrorMaker):
    """MirrorMaker 2 that copies exactly once and follows every group that exists when it starts."""

    def options(self, job: Job) -> dict[str, object]:
        way = f"{job.label}->copy"
        return {
            **super().options(job),
            f"{way}.emit.checkpoints.enabled": "true",
            f"{way}.emit.checkpoints.interval.seconds": INTERVAL_SECONDS,
            f"{way}.sync.group.offsets.enabled": "true",
            f"{way}.sync.group.offsets.interval.seconds": INTERVAL_SECONDS,
            f"{way}.checkpoints.topic.replication.factor": 1,
        }


def mirror() -> CheckpointingMirrorMaker:
    """Return the peer."""
    return CheckpointingMirrorMaker("MirrorMaker 2", exactly_once=True)


def job(source: str, target: str, topic: str, partitions: int, folder: Path) -> Job:
    """Return the job that copies one cluster's topic to another cluster, given their bootstrap servers."""
    copy = mirror().target_topic(topic, _ALIAS)
    return Job(_ALIAS, {"source": source, "target": target}, topic, copy, partitions, folder)


def written(servers: str) -> dict[tuple[str, str, int], int]:
    """Return (group, topic on the target, partition) -> target offset of its last checkpoint."""
    found: dict[tuple[str, str, int], int] = {}
    for messages in records.read(servers, f"{_ALIAS}.checkpoints.internal", {0: None}):
        for message in messages:
            key, value = message.key(), message.value()
            if key is None or value is None:
                continue
            group, at = _text(key, 0)
            topic, at = _text(key, at)
            (partition,) = struct.unpack_from(">i", key, at)
            # After the version: offset on the source, offset on the target.
            found[group, topic, partition] = struct.unpack_from(">hqq", value)[2]
    return found


def _text(data: bytes, at: int) -> tuple[str, int]:
    """Read a length-prefixed string; return it with the index of the next field."""
    (length,) = struct.unpack_from(">h", data, at)
    end = at + 2 + length
    return data[at + 2 : end].decode(), end
