"""How long a worker's leases last: longer as its renewals get late, never above a bound.

A lease of fixed length has a cliff. On a machine that is overloaded, renewals that are due each second come every
seven, leases of six seconds expire although their holders are alive, other workers on the same machine take the
units over and fence the sessions. That costs more than copying would have, so the next renewals are later still.

So a worker measures the time between two of its renewals, by the database's clock, and asks for leases that
outlast `GAPS_OUTLASTED` such gaps. The worst gap counts less with each renewal, so that the length comes back to
the base within seconds once the machine has recovered.
"""

from __future__ import annotations

GAPS_OUTLASTED = 3
_REMEMBERED = 0.7
"""Part of the worst gap that still counts after one more renewal: a gap of 20 s is forgotten after eight."""


class LeaseLength:
    """The length of one worker's leases; `renewed` is called after each renewal."""

    def __init__(self, base_seconds: float, longest_seconds: float) -> None:
        self._base, self._longest = base_seconds, max(base_seconds, longest_seconds)
        self._gap = 0.0

    def renewed(self, gap_seconds: float) -> None:
        """Note that this many seconds of the database's clock lay between the last two renewals."""
        self._gap = max(gap_seconds, self._gap * _REMEMBERED)

    def seconds(self, waited_seconds: float = 0.0) -> float:
        """Return the length of a lease that is taken or renewed now.

        `waited_seconds`: since the last renewal. One that is overdue is late already, although nobody has measured
        yet by how much.
        """
        return min(self._longest, max(self._base, GAPS_OUTLASTED * max(self._gap, waited_seconds)))

    def grace_seconds(self, waited_seconds: float = 0.0) -> float:
        """Return for how long this worker leaves an expired lease to its holder.

        A worker whose own renewals are late shares a starved machine, or a slow database, with others: a holder
        whose lease has just expired is probably late as well, and alive. 0 while the worker is on time, so that
        the units of a dead worker move at once.
        """
        return self.seconds(waited_seconds) - self._base

    def is_late(self, waited_seconds: float = 0.0) -> bool:
        """Return whether renewals are so late that leases have to be longer than the base."""
        return self.grace_seconds(waited_seconds) > 0
