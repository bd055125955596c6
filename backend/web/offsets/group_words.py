"""Labels of diagnoses of consumer groups, and how serious each is."""

from __future__ import annotations

from collections.abc import Mapping

from backend.domain.offsets import group_diagnosis as diagnosis

LABELS: Mapping[str, str] = {
    diagnosis.IN_TIME: "In time",
    diagnosis.NO_MEMBERS: "No members",
    diagnosis.SLOWER: "Slower than producers",
    diagnosis.CATCHING_UP: "Catching up",
    diagnosis.STALLED: "Partition stalled",
    diagnosis.REBALANCE: "Rebalancing",
    diagnosis.PAUSED: "Paused by a switch",
    diagnosis.NEVER_COMMITTED: "Never committed",
    diagnosis.UNASSIGNED: "Partition without owner",
    diagnosis.BEYOND_END: "Offset beyond the log's end",
    diagnosis.NOT_OBSERVED: "Not observed",
}
_BAD = frozenset(
    {
        diagnosis.NO_MEMBERS,
        diagnosis.SLOWER,
        diagnosis.STALLED,
        diagnosis.UNASSIGNED,
        diagnosis.BEYOND_END,
    }
)


def severity(code: str) -> str:
    """Return the severity of a diagnosis: `good`, `warn` (it needs time or a look) or `bad`."""
    if code == diagnosis.IN_TIME:
        return "good"
    return "bad" if code in _BAD else "warn"
