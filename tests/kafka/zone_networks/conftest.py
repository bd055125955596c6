"""Fixture: one set of zones for the folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kafka.zone_networks.lab import Lab, running
from tests.kafka.zone_networks.moved import Produced, produced_in
from tests.kafka.zone_networks.namespaces import NoNamespaces
from tests.support.kafka import kafka_tools


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    kafka_tools.folders()  # a zone has no route to their source
    try:
        with running(tmp_path_factory.mktemp("zones")) as lab:
            yield lab
    except NoNamespaces as error:
        pytest.fail(f"these tests need network namespaces: {error}")


@pytest.fixture(scope="package")
def produced(lab: Lab) -> Produced:
    return produced_in(lab)
