"""Fixtures live in plugins beside this file; real PostgreSQL, Valkey and Kafka, never a stand-in."""

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = [
    "tests.database_fixture",
    "tests.estate_fixture",
    "tests.side_by_side",
    "tests.turns",
    "tests.failure_logs",
    "tests.cluster_secrets",
]

# Before any process reads its settings: the variables that clusters of tests refer to, never set but by a test.
os.environ["TREELINE_SECRET_VARIABLES"] = '["C[0-9]*", "SPARE_PASSWORD", "RESTRICTED"]'

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# In the background of a shell Ctrl-C is ignored, also by the programs that tests start and then interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    # Thousands of tests and all that they import: they stay, and are not to be looked through again and again.
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def no_contexts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The developer's own contexts lead to control planes that no test may speak to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.delenv("TREELINE_CONTEXT", raising=False)
        yield
