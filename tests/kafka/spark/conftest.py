"""One Spark session for the tests of this folder, and topics of their own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark.session import session
from tests.kafka.spark.stopped_calls import drop_stopped_call
from tests.support.estate.running import RunningEstate
from tests.support.kafka.topics import create_topic


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    found = session("local[2]", tmp_path_factory.mktemp("spark"), 700, few_rows=True)
    yield found
    found.stop()


@pytest.fixture(autouse=True)
def no_stopped_call() -> Iterator[None]:
    """Keep a test that its time limit stopped from failing those after it."""
    yield
    drop_stopped_call()


@pytest.fixture
def servers(estate: RunningEstate) -> str:
    return estate.bootstrap_servers("cluster-1")


@pytest.fixture
def topic(servers: str) -> str:
    """Create a topic of two partitions on cluster-1 that belongs to no stream."""
    name = f"log.{uuid.uuid4().hex[:8]}"
    # The timestamps are old: retention would delete the records at any time.
    create_topic(servers, name, 2, retention_ms="-1")
    return name
