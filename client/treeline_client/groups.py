"""Consumer groups: which names they may have, and their metadata as a transactional producer wants it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LONGEST_GROUP = 249


def group_name_problem(name: str) -> str | None:
    """Return why Treeline would not carry the offsets of a group of this name to other clusters; None if it does.

    The same rule as the control plane's: a consumer of a group that is not followed would begin anew after a
    switch.
    """
    if not name:
        return "it is empty"
    at = next((at for at, character in enumerate(name) if not character.isprintable()), None)
    if at is not None:
        return f"it has the character U+{ord(name[at]):04X} at place {at + 1}"
    if name != name.strip(" "):
        return f"it {'begins' if name[0] == ' ' else 'ends'} with a blank (U+0020)"
    if len(name) > LONGEST_GROUP:
        return f"it has {len(name)} characters, at most {LONGEST_GROUP} are allowed"
    return None


@dataclass(frozen=True)
class GroupMetadata:
    """What `SwitchingConsumer.consumer_group_metadata()` gives and `send_offsets_to_transaction()` takes.

    The generation keeps offsets of one cluster from being committed on another, where a producer has moved on and
    its consumer not yet.
    """

    generation: int
    cluster: str
    metadata: Any
    """librdkafka's own."""
