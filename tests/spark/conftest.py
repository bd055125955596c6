"""One Spark session for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark.session import session


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    found = session("local[2]", tmp_path_factory.mktemp("spark"), 700, few_rows=True)
    yield found
    found.stop()
