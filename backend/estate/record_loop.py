"""The native record loop of an estate: compiled at the first start if the installation did not do it."""

from __future__ import annotations

from collections.abc import Callable

from backend.estate.home import exclusive_lock
from backend.kafka.copy.native.build import BuildFailed, build
from backend.kafka.copy.native.built import built
from backend.settings import settings


def ensure_record_loop(progress: Callable[[str], None]) -> None:
    """Build the native record loop unless it exists; report in one line why the Python loop is used instead.

    A wheel contains the sources only: the loop fits one Python, one platform and one confluent-kafka.
    """
    cache = settings().cache.absolute()
    cache.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(cache / "record-loop.lock"):
        if built().exists():
            return
        progress("building the native record loop (once)")
        try:
            build()
        except BuildFailed as failure:
            progress(failure.sentence())
