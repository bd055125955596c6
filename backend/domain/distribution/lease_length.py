"""Duration of a worker's leases: longer while its renewals are late, never above a bound.

Leases of fixed length fail abruptly under overload. On an overloaded machine renewals that are due each second
come every seven, so leases of six seconds expire although their holders are alive; other workers on the same
machine take the tasks over and fence the sessions. That costs more than copying, so the next renewals are later
still.

Therefore a worker measures the time between its renewals, by the database's clock, and requests leases that
outlast `GAPS_OUTLASTED` such gaps. The worst gap counts less with each renewal, so that the duration returns to
the base within seconds after the machine has recovered.
"""

from __future__ import annotations

GAPS_OUTLASTED = 3
_REMEMBERED = 0.7
"""Fraction of the worst gap that still counts after one more renewal: a gap of 20 s is forgotten after eight."""


class LeaseLength:
    """The duration of one worker's leases; call `renewed` after each renewal."""

    def __init__(self, base_seconds: float, longest_seconds: float) -> None:
        self._base, self._longest = base_seconds, max(base_seconds, longest_seconds)
        self._gap = 0.0

    def renewed(self, gap_seconds: float) -> None:
        """Note that this many seconds of the database's clock lay between the last two renewals."""
        self._gap = max(gap_seconds, self._gap * _REMEMBERED)

    def seconds(self, waited_seconds: float = 0.0) -> float:
        """Return the duration of a lease that is taken or renewed now.

        `waited_seconds`: time since the last renewal. An overdue renewal counts as late before its gap has been
        measured.
        """
        return min(self._longest, max(self._base, GAPS_OUTLASTED * max(self._gap, waited_seconds)))

    def grace_seconds(self, waited_seconds: float = 0.0) -> float:
        """Return the seconds for which this worker leaves an expired lease to its holder.

        A worker whose own renewals are late shares a starved machine, or a slow database, with others: a holder
        whose lease has just expired is probably late as well, and alive. The result is 0 while the worker is on
        time, so that the tasks of a dead worker move at once.
        """
        return self.seconds(waited_seconds) - self._base

    def is_late(self, waited_seconds: float = 0.0) -> bool:
        """Return whether renewals are so late that leases have to be longer than the base."""
        return self.grace_seconds(waited_seconds) > 0
