"""A local S3 server for the folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.zones.s3 import S3, local_s3


@pytest.fixture(scope="package")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with local_s3(tmp_path_factory.mktemp("s3") / "log") as server:
        yield server
