"""Scenarios, one for each defect of the documents; docs/replication-lab.md has the table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from backend.replication_lab.scenarios.acknowledgements import ACKNOWLEDGEMENTS
from backend.replication_lab.scenarios.losses import LOSSES
from backend.replication_lab.scenarios.scenario import Cue, Scenario

SCENARIOS: Mapping[str, Scenario] = MappingProxyType({each.name: each for each in (*LOSSES, *ACKNOWLEDGEMENTS)})
"""Scenarios by name, in the order of the list."""

__all__ = ["SCENARIOS", "Cue", "Scenario"]
