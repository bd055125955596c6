"""Consumer groups: valid names, and group metadata for a transactional producer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LONGEST_GROUP = 249


def group_name_problem(name: str) -> str | None:
    """Return why Treeline would not translate the offsets of a group of this name; None if it would.

    The control plane has the same rule: after a switch, a consumer of a group that is not followed would start
    over.
    """
    if not name:
        return "it is empty"
    at = next((at for at, character in enumerate(name) if not character.isprintable()), None)
    if at is not None:
        return f"it has the character U+{ord(name[at]):04X} at position {at + 1}"
    if name != name.strip(" "):
        return f"it {'begins' if name[0] == ' ' else 'ends'} with a space (U+0020)"
    if len(name) > LONGEST_GROUP:
        return f"it has {len(name)} characters, at most {LONGEST_GROUP} are allowed"
    return None


@dataclass(frozen=True)
class GroupMetadata:
    """Group metadata from `SwitchingConsumer.consumer_group_metadata()` for `send_offsets_to_transaction()`.

    The generation prevents offsets of one cluster from being committed on another, when a producer has moved and
    its consumer has not yet.
    """

    generation: int
    cluster: str
    metadata: Any
    """librdkafka's own metadata."""
