"""Clusters with formats unlike each other: records, groups and schemas are on each under its own names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import Phase, given, note, settings

from backend.domain.names.names import StreamName
from tests.kafka.offsets.format_mixes import Mix, Whole, mixes, set_formats
from tests.support.api.rest_client import RestClient
from tests.support.estate.running import RunningEstate
from tests.support.schemas.registries import Registries

ESTATE = Path(__file__).parent / "two_clusters.yaml"
CLUSTERS = ("cluster-1", "cluster-2")
MIXES = 6


@pytest.mark.nightly
def test_two_formats_of_one_tree(estate: RunningEstate, rest: RestClient, servers: dict[str, str]) -> None:
    """`{tenant}-{environment}-{topic}` on some clusters: one character keeps these two streams apart there."""
    streams = (StreamName("mix", "retail", "a", "b_c"), StreamName("mix", "retail", "a-b", "c"))
    Whole(rest, servers, Registries.of(estate)).holds(streams, "cluster-4")


@pytest.mark.nightly
def test_any_mix_of_formats(boot_estate: Callable[..., RunningEstate]) -> None:
    own = boot_estate(ESTATE)
    rest = RestClient(own.url, own.token)
    servers = {name: row["bootstrap_servers"] for name, row in own.status()["clusters"].items()}

    # An example takes seconds: none is shrunk, and there are few.
    @settings(max_examples=MIXES, phases=(Phase.generate,), database=None)
    @given(mixes(CLUSTERS))
    def holds(mix: Mix) -> None:
        note(str(mix))
        set_formats(rest, mix.formats)
        Whole(rest, servers, Registries.of(own)).holds(mix.streams, mix.origin)

    holds()
