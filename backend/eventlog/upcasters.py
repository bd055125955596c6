"""Upcasters that turn old shapes of events into the current ones on reading; history itself is never edited.

A step is a pure function on the stored data, from one version to the next:

    @UPCASTERS.step("StreamDeclared", from_version=1)
    def add_cleanup_policy(data): return {**data, "cleanup_policy": "delete"}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Data = Mapping[str, Any]
Step = Callable[[Data], Data]


class Upcasters:
    """Steps by (stored name, version that the step reads)."""

    def __init__(self) -> None:
        self._steps: dict[tuple[str, int], Step] = {}

    def add(self, name: str, from_version: int, step: Step) -> None:
        """Register the step from `from_version` to the next one; a second step for a version is refused."""
        if (name, from_version) in self._steps:
            raise ValueError(f"{name} has two steps from version {from_version}")
        self._steps[name, from_version] = step

    def step(self, name: str, from_version: int) -> Callable[[Step], Step]:
        """Return `add` as a decorator."""

        def register(step: Step) -> Step:
            self.add(name, from_version, step)
            return step

        return register

    def raise_to(self, version: int, name: str, from_version: int, data: Data) -> Data:
        """Return `data` in the shape of `version`; raises LookupError naming the missing step."""
        for present in range(from_version, version):
            step = self._steps.get((name, present))
            if step is None:
                raise LookupError(f"{name} has no step from version {present}")
            data = step(data)
        return data


UPCASTERS = Upcasters()


@UPCASTERS.step("StreamDeclared", from_version=1)
@UPCASTERS.step("StreamChanged", from_version=1)
def _add_max_message_bytes(data: Data) -> Data:
    """Add Kafka's default and room for our headers, which every topic had until then."""
    return {**data, "max_message_bytes": 1_048_588}


@UPCASTERS.step("StreamDeclared", from_version=2)
@UPCASTERS.step("StreamChanged", from_version=2)
def _add_config(data: Data) -> Data:
    """Add an empty `config`: no other settings could be declared.

    Replication factor and minimum were always explicit, and stay so.
    """
    return {**data, "config": {}}


@UPCASTERS.step("AdoptionBegun", from_version=1)
def _add_config_of_topics(data: Data) -> Data:
    """Add empty settings: until then an adoption left other settings to the topic."""
    return {**data, "topics": [{**topic, "config": {}} for topic in data["topics"]]}


@UPCASTERS.step("EnvironmentCreated", from_version=1)
@UPCASTERS.step("EnvironmentChanged", from_version=1)
def _add_record_name_subjects(data: Data) -> Data:
    """Allow such subjects: until then none were refused."""
    return {**data, "record_name_subjects": True}


@UPCASTERS.step("LeafEnteredRoutes", from_version=1)
def _add_buckets(data: Data) -> Data:
    """Add 0 for unknown: buckets were not recorded. The leaf passes one more barrier."""
    return {**data, "buckets": 0}


@UPCASTERS.step("PlacementRequested", from_version=1)
def _add_as_declared(data: Data) -> Data:
    """Add False: until then replication factors were always explicit."""
    return {**data, "aims": {**data["aims"], "as_declared": False}}


@UPCASTERS.step("StreamDeleted", from_version=1)
def _add_confirmed(data: Data) -> Data:
    """Add True: until then topics were removed with records that arrived after the check for records."""
    return {**data, "confirmed": True}
