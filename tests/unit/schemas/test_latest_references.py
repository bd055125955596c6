"""References to the latest version of a subject: version -1, as Confluent's registry takes them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from backend.registry.deleting import delete_version
from backend.registry.records import Content, Reference, SchemaVersion
from backend.registry.refusals import RegistryError
from backend.registry.registering import Wanted, compatible, find
from tests.support.schemas.written_log import avro, numbers, referring, settled


def test_a_reference_to_the_latest_version_keeps_the_one_that_was_the_latest_then():
    log, latest = settled(), Reference(name="Used", subject="used", version=-1)
    text = referring("User", "Used")
    assert log.register("user", text, latest) == log.register("other", text, latest)
    assert numbers(log, "user") == [1]
    log.register("used", avro("a", "b?", name="Used"))
    assert log.catalog.versions("other")[-1].content.references[0].version == 1
    wanted = Wanted(content=Content(text=text, references=(latest,)))
    assert find(log.catalog, log.parser, "user", wanted) is None, "the latest is another one by now"
    assert compatible(log.catalog, log.parser, "user", wanted, log.catalog.versions("user")) == []
    log.register("user", text, latest)
    assert [each.content.references[0].version for each in log.catalog.versions("user")] == [1, 2]
    for subject in ("gone", "never"):
        with pytest.raises(RegistryError) as refused:
            log.register("user", text, replace(latest, subject=subject))
        assert refused.value.code == 42201


def test_a_reference_to_the_latest_version_that_others_stored_is_read():
    log, latest = settled(), Reference(name="Used", subject="used", version=-1)
    content = Content(text=referring("Theirs", "Used"), references=(latest,))
    log.append(SchemaVersion(subject="theirs", version=1, id=77, content=content))
    assert log.register("theirs", content.text, latest) == 77
    with pytest.raises(RegistryError) as refused:
        log.write(delete_version, "used", "1", permanent=False)
    assert refused.value.code == 42206
    assert log.register("theirs", json.dumps(json.loads(content.text), indent=1), latest) == 78
    (theirs, _) = log.catalog.versions("theirs")
    assert [each.version for each in log.parser.parsed(log.catalog, theirs.content).referenced] == [-1]
