"""History stays readable: every event version that was ever shipped has a file that never changes."""

from __future__ import annotations

import json

import pytest

from backend.eventlog import canonical
from backend.eventlog.registry import domain_registry
from tests.golden.add import FOLDER, path_of, read_manifest, sha256

REGISTRY = domain_registry()
FILES = sorted(FOLDER.glob("*.json"))
SHIPPED = [
    (name, version)
    for name, cls in sorted(REGISTRY.classes.items())
    for version in range(1, cls.schema_version + 1)
]

RAISED = [
    # event, version, added field, and the value that it had implicitly then
    ("AdoptionBegun", 1, "topics.config", {}),
    ("EnvironmentChanged", 1, "record_name_subjects", True),
    ("EnvironmentCreated", 1, "record_name_subjects", True),
    ("LeafEnteredRoutes", 1, "buckets", 0),
    ("PlacementRequested", 1, "aims.as_declared", False),
    ("StreamChanged", 1, "max_message_bytes", 1_048_588),
    ("StreamChanged", 2, "config", {}),
    ("StreamDeclared", 1, "max_message_bytes", 1_048_588),
    ("StreamDeclared", 2, "config", {}),
    ("StreamDeleted", 1, "confirmed", True),
]


@pytest.mark.parametrize(("name", "version"), SHIPPED)
def test_every_version_of_every_event_has_a_golden_file(name, version):
    assert path_of(name, version).exists(), "run `python -m tests.golden.add` for a new event or version"


def test_no_golden_file_was_changed_added_by_hand_or_removed():
    assert {path.name: sha256(path) for path in FILES} == read_manifest()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_golden_file_is_read_and_written_back_unchanged(path):
    document = json.loads(path.read_text())
    cls = REGISTRY.classes.get(document["name"])
    assert cls is not None, f"{document['name']} is stored in logs, but no class reads it any more"
    assert path == path_of(document["name"], document["schema_version"])
    for data in document["examples"]:
        canonical.check(data, path.stem)
        event = REGISTRY.decode(document["name"], document["schema_version"], data)
        assert type(event) is cls
        if document["schema_version"] == cls.schema_version:
            assert REGISTRY.encode(event) == data
        # The output of an upcaster must be as good as what is written today.
        assert REGISTRY.decode(cls.stored_name, cls.schema_version, REGISTRY.encode(event)) == event


@pytest.mark.parametrize(("name", "version", "place", "value"), RAISED)
def test_an_old_event_is_read_as_it_was_meant(name, version, place, value):
    examples = json.loads(path_of(name, version).read_text())["examples"]
    found = [
        each
        for data in examples
        for each in values_at(REGISTRY.encode(REGISTRY.decode(name, version, data)), place)
    ]
    assert found and all(each == value for each in found)


def test_of_every_old_version_is_said_how_it_is_read():
    old = [(name, version) for name, version in SHIPPED if version < REGISTRY.classes[name].schema_version]
    assert sorted((name, version) for name, version, *_ in RAISED) == old


def values_at(data, place):
    """Return all values at a place such as `topics.config`, where a list stands for each of its items."""
    name, _, rest = place.partition(".")
    for each in data if isinstance(data, list) else [data]:
        yield from values_at(each[name], rest) if rest else [each[name]]


def test_events_are_frozen_and_keyword_only():
    for name, cls in REGISTRY.classes.items():
        parameters = cls.__dataclass_params__  # type: ignore[attr-defined]
        assert parameters.frozen, name
        assert all(field.kw_only for field in cls.__dataclass_fields__.values()), name  # type: ignore[attr-defined]
