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
        # What an upcaster made is as good as what is written today.
        assert REGISTRY.decode(cls.stored_name, cls.schema_version, REGISTRY.encode(event)) == event


def test_events_are_frozen_and_keyword_only():
    for name, cls in REGISTRY.classes.items():
        parameters = cls.__dataclass_params__  # type: ignore[attr-defined]
        assert parameters.frozen, name
        assert all(field.kw_only for field in cls.__dataclass_fields__.values()), name  # type: ignore[attr-defined]
