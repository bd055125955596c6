"""Settings of the secrets that clusters' properties may reference, for a test's own process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from backend.settings import settings

_READERS = ("backend.kafka.base.references", "backend.kafka.base.secret_files", "backend.kafka.base.destinations")


@contextmanager
def cluster_secrets(**values: object) -> Iterator[None]:
    """Use these settings where Kafka clients are configured, until the block ends."""
    changed = settings().model_copy(update=values)
    with pytest.MonkeyPatch.context() as patch:
        for module in _READERS:
            patch.setattr(f"{module}.settings", lambda: changed)
        yield


@pytest.fixture
def set_to(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Use these settings where Kafka clients are configured, until the test ends."""

    def set_to(**values: object) -> None:
        changed = settings().model_copy(update=values)
        for module in _READERS:
            monkeypatch.setattr(f"{module}.settings", lambda: changed)

    return set_to
