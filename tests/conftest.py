"""Fixtures live in plugins beside this file; real PostgreSQL, Redis and Kafka, never a stand-in."""

from importlib.util import find_spec

pytest_plugins = ["tests.database_fixture"]
if find_spec("tests.estate_fixture"):
    pytest_plugins.append("tests.estate_fixture")
