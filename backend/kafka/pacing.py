"""How long a session waits between a commit and its next transaction."""

from __future__ import annotations

_SHORTEST_SECONDS = 0.004
_LONGEST_SECONDS = 0.02
_REFUSED_SECONDS = 0.02
"""The least time that librdkafka (2.16) waits before it asks again."""
_GROWTH, _DECAY = 2.0, 0.97


class MarkerPause:
    """The time in which the target writes a commit's markers, learnt from what happens afterwards.

    Until they are written the coordinator refuses the next transaction, and librdkafka asks again only after 20 ms
    or more: waiting a little is the faster way. How long markers take depends on the brokers and their load.
    """

    def __init__(self) -> None:
        self.seconds = _SHORTEST_SECONDS

    def note(self, took_seconds: float) -> None:
        """The first call of a transaction that asks the coordinator took so long."""
        change = _GROWTH if took_seconds > _REFUSED_SECONDS else _DECAY
        self.seconds = min(max(self.seconds * change, _SHORTEST_SECONDS), _LONGEST_SECONDS)
