"""Fixtures are in plugins beside this file; real PostgreSQL, Valkey and Kafka, never a stand-in."""

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Their failed assertions say what was compared, as those of tests do.
pytest.register_assert_rewrite("tests.support")

pytest_plugins = [
    "tests.support.database.postgres",
    "tests.support.estate.running",
    "tests.parallel_groups",
    "tests.rewritten_once",
    "tests.process_timeline",
    "tests.support.estate.failure_logs",
    "tests.support.estate.cluster_secrets",
]

# Set before any process reads its settings: the variables that tests' clusters reference, set by no one else.
os.environ["TREELINE_SECRET_VARIABLES"] = '["C[0-9]*", "SPARE_PASSWORD", "RESTRICTED"]'

# The duration of an example depends on the machine's load, not on the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# A background job of a shell ignores Ctrl-C, and so do the programs that tests start and then interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    # Thousands of tests and all their imports are permanent: garbage collection must not traverse them, neither
    # while they are found nor later.
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def no_contexts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hide the developer's own contexts: they lead to control planes that no test may contact."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.delenv("TREELINE_CONTEXT", raising=False)
        yield
