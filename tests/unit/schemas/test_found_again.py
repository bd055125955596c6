"""A schema that is there is found, also where it would not be accepted as new: others registered it."""

from __future__ import annotations

import json

import pytest

from backend.registry.records import Content, SchemaVersion
from backend.registry.refusals import RegistryError
from backend.registry.registering import Wanted, find
from backend.registry.settings_changes import set_mode
from tests.support.schemas.written_log import WrittenLog

FIELDS = [
    {"name": "a", "type": "int", "default": "0"},
    {"name": "b", "type": ["null", "string"], "default": "null"},
]
OLD = json.dumps({"type": "record", "name": "R", "fields": FIELDS}, separators=(",", ":"))
UNPARSED = '{"type": "strin"}'


@pytest.fixture(params=[OLD, UNPARSED])
def text(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def log(text: str) -> WrittenLog:
    log = WrittenLog()
    log.append(SchemaVersion(subject="s", version=3, id=41, content=Content(text=text)))
    return log


def test_it_is_looked_up_and_registered_again_under_its_id(log, text):
    found = find(log.catalog, log.parser, "s", Wanted(content=Content(text=text)))
    assert found is not None
    assert found.id == 41
    entries = len(log.entries)
    assert log.register("s", text) == 41
    log.write(set_mode, "s", "IMPORT", force=True)
    assert log.register("s", text, id=41, version=3) == 41
    assert log.register("s", text, id=41) == 41
    assert len(log.entries) == entries + 1


def test_it_is_not_accepted_as_new(log, text):
    with pytest.raises(RegistryError) as refused:
        log.register("t", text)
    assert refused.value.code == 42201


def test_it_is_found_in_another_way_of_writing():
    log = WrittenLog()
    log.append(SchemaVersion(subject="s", version=3, id=41, content=Content(text=OLD)))
    assert log.register("s", json.dumps(json.loads(OLD), indent=4)) == 41
