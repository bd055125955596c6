"""Fixtures live in plugins beside this file; real PostgreSQL, Redis and Kafka, never a stand-in."""

from hypothesis import HealthCheck, settings

pytest_plugins = [
    "tests.database_fixture",
    "tests.estate_fixture",
    "tests.side_by_side",
    "tests.turns",
    "tests.failure_logs",
]

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
