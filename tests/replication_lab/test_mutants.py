"""Each mend left out, each promise broken in one line: the checker has to find out, by the cheapest of its ways.

Ways are a random schedule of faults, a random walk, or a search. A mend that nothing misses would be none.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from backend.replication_lab.rules import FIXED, MODES, Rules
from backend.replication_lab.search import Bounds, search
from tests.replication_lab import random_walks
from tests.replication_lab.mutants import BY_LINE, BY_RULES
from tests.replication_lab.test_random_faults import broken, ran
from tests.replication_lab.test_search import THREE, begin

NEAR = 3
"""Seeds before and after that which is known to find it, so that small changes elsewhere leave the test as it is."""
