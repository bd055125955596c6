"""Each mend left out, each promise broken in one line: the checker has to find out, by the cheapest of its ways.

Ways are a random schedule of faults, a random walk, or a search. A mend that nothing misses would be none.
"""

from __future__ import annotations

NEAR = 3
"""Seeds before and after that which is known to find it, so that small changes elsewhere leave the test as it is."""
