"""Records of the schemas topic: those of other registries are read, ours are as theirs, garbage is told."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.registry.records import (
    ConfigSet,
    Content,
    ModeSet,
    Noop,
    Reference,
    SchemaVersion,
    SubjectCleared,
    SubjectDeleted,
    Unreadable,
    VersionGone,
    decode,
    encode,
)

PLAIN = SchemaVersion(subject="orders-value", version=2, id=7, content=Content(text='"string"'))
FULL = SchemaVersion(
    subject="été/✓",
    version=1,
    id=8,
    content=Content(
        kind="PROTOBUF",
        text='syntax = "proto3";\nmessage Ü {}',
        references=(Reference(name="other.proto", subject="other", version=3),),
        contract='{"metadata": {"properties": {"owner": "a"}}}',
    ),
    deleted=True,
)
# As Confluent's registry writes them; what is after them is what they say.
OF_CONFLUENT = [
    (
        '{"keytype":"SCHEMA","subject":"orders-value","version":2,"magic":1}',
        '{"subject":"orders-value","version":2,"id":7,"schema":"\\"string\\"","deleted":false}',
        PLAIN,
    ),
    (
        '{"keytype":"SCHEMA","subject":"orders-value","version":2,"magic":1}',
        '{"subject":"orders-value","version":2,"id":7,"md5":"a4LhPA==","schema":"\\"string\\"","deleted":false,'
        '"schemaType":"AVRO","references":[],"metadata":null,"ruleSet":null,"of-tomorrow":[{}],"ts":1}',
        PLAIN,
    ),
    (
        '{"keytype":"SCHEMA","subject":"orders-value","version":2,"magic":0}',
        '{"subject":"orders-value","version":2,"id":7,"schema":"\\"string\\""}',
        PLAIN,
    ),
    (
        '{"keytype":"SCHEMA","subject":"orders-value","version":2,"magic":1}',
        None,
        VersionGone(subject="orders-value", version=2),
    ),
    (
        '{"keytype":"CONFIG","subject":null,"magic":0}',
        '{"compatibilityLevel":"FULL"}',
        ConfigSet(subject=None, fields={"compatibilityLevel": "FULL"}),
    ),
    (
        '{"keytype":"CONFIG","magic":0}',
        '{"compatibilityLevel":"FULL"}',
        ConfigSet(subject=None, fields={"compatibilityLevel": "FULL"}),
    ),
    (
        '{"keytype":"CONFIG","subject":"s","magic":0}',
        '{"subject":"s","alias":"t","normalize":true,"compatibilityLevel":null}',
        ConfigSet(subject="s", fields={"alias": "t", "normalize": True}),
    ),
    ('{"keytype":"CONFIG","subject":"s","magic":0}', None, ConfigSet(subject="s", fields=None)),
    ('{"keytype":"MODE","subject":"s","magic":0}', '{"mode":"IMPORT"}', ModeSet(subject="s", mode="IMPORT")),
    ('{"keytype":"MODE","magic":0}', None, ModeSet(subject=None, mode=None)),
    (
        '{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}',
        '{"subject":"s","version":4}',
        SubjectDeleted(subject="s", version=4),
    ),
    ('{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}', None, None),
    ('{"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}', '{"subject":"s"}', SubjectCleared(subject="s")),
    ('{"keytype":"NOOP","magic":0}', None, Noop()),
    # Karapace of old did not order the fields of a key.
    ('{"magic":0,"subject":"s","keytype":"MODE"}', '{"mode":"READONLY"}', ModeSet(subject="s", mode="READONLY")),
    # The default context, by its full name.
    ('{"keytype":"MODE","subject":":.:s","magic":0}', '{"mode":"IMPORT"}', ModeSet(subject="s", mode="IMPORT")),
]


@pytest.mark.parametrize(("key", "value", "said"), OF_CONFLUENT)
def test_records_of_other_registries_are_read(key, value, said):
    assert decode(key.encode(), None if value is None else value.encode()) == said


@pytest.mark.parametrize(
    "record",
    [
        PLAIN,
        FULL,
        VersionGone(subject="s", version=2),
        ConfigSet(subject=None, fields={"compatibilityLevel": "NONE"}),
        ConfigSet(subject="s", fields={"compatibilityLevel": "NONE", "normalize": True}),
        ConfigSet(subject="s", fields=None),
        ModeSet(subject=None, mode="READONLY"),
        ModeSet(subject="s", mode=None),
        SubjectDeleted(subject="s", version=3),
        SubjectCleared(subject=None),
        Noop(highest_id=12),
    ],
    ids=lambda record: type(record).__name__,
)
def test_what_is_written_is_read_back(record):
    assert decode(*encode(record)) == record


def test_a_key_is_written_byte_for_byte_as_others_write_it():
    """Compaction compares bytes: another order of fields would be another key, and both records would stay."""
    assert encode(PLAIN) == (
        b'{"keytype":"SCHEMA","subject":"orders-value","version":2,"magic":1}',
        b'{"subject":"orders-value","version":2,"id":7,"schema":"\\"string\\"","deleted":false}',
    )
    assert encode(ModeSet(subject="s", mode=None)) == (b'{"keytype":"MODE","subject":"s","magic":0}', None)
    assert encode(ConfigSet(subject=None, fields=None))[0] == b'{"keytype":"CONFIG","magic":0}'


def test_only_a_schema_of_another_kind_than_avro_says_its_kind():
    assert "schemaType" not in json.loads(encode(PLAIN)[1] or b"")
    assert json.loads(encode(FULL)[1] or b"")["schemaType"] == "PROTOBUF"


KEY = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
GOOD = {"subject": "s", "version": 1, "id": 1, "schema": "{}", "deleted": False}
GARBAGE = [
    (None, b"{}"),
    (b"", b"{}"),
    (b"\xff\xfe", b"{}"),
    (b"17", b"{}"),
    (b"[]", b"{}"),
    (b"null", b"{}"),
    (b"{}", b"{}"),
    (b'{"keytype":"SCHEMA"', b"{}"),
    (b'{"keytype":"ASSOC","magic":0}', b"{}"),
    (b'{"keytype":["SCHEMA"],"magic":1}', b"{}"),
    (b'{"keytype":"SCHEMA","version":1,"magic":1}', b"{}"),
    (b'{"keytype":"SCHEMA","subject":5,"version":1,"magic":1}', b"{}"),
    (b'{"keytype":"SCHEMA","subject":"s","magic":1}', b"{}"),
    (b'{"keytype":"SCHEMA","subject":"s","version":"1","magic":1}', b"{}"),
    (b'{"keytype":"SCHEMA","subject":"s","version":0,"magic":1}', b"{}"),
    (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":2}', b"{}"),
    (b'{"keytype":"SCHEMA","subject":":.other:s","version":1,"magic":1}', b"{}"),
    (b'{"keytype":"SCHEMA","subject":"\\ud800","version":1,"magic":1}', b"{}"),
    (b'{"keytype":"SCHEMA","subject":"\xed\xa0\x80","version":1,"magic":1}', json.dumps(GOOD).encode()),
    (KEY, json.dumps(GOOD).encode().replace(b"{}", b"\xed\xb0\x80")),
    (KEY, json.dumps(GOOD).encode("utf-16")),
    (b'{"keytype":"MODE","subject":"s","magic":0}', b'{"mode":5}'),
    (b'{"keytype":"MODE","subject":"s","magic":0}', b'{"mode":"SOMETIMES"}'),
    (b'{"keytype":"CONFIG","subject":"s","magic":0}', b'{"compatibilityLevel":"SIDEWAYS"}'),
    (b'{"keytype":"CONFIG","subject":"s","magic":0}', b'{"compatibilityLevel":["FULL"]}'),
    (b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}', b'{"subject":"s"}'),
    (b'{"keytype":"DELETE_SUBJECT","magic":0}', b'{"version":1}'),
    (KEY, b"{"),
    (KEY, b"[]"),
    (KEY, b'"text"'),
    (KEY, b"[" * 100_000),
    (KEY, json.dumps({**GOOD, "id": None}).encode()),
    (KEY, json.dumps({**GOOD, "id": 2**40}).encode()),
    (KEY, json.dumps({**GOOD, "id": True}).encode()),
    (KEY, json.dumps({**GOOD, "schema": {"type": "string"}}).encode()),
    (KEY, json.dumps({**GOOD, "schema": "\ud800"}).encode()),
    (KEY, json.dumps({**GOOD, "schemaType": 3}).encode()),
    (KEY, json.dumps({**GOOD, "references": {"a": 1}}).encode()),
    (KEY, json.dumps({**GOOD, "references": ["a"]}).encode()),
    (KEY, json.dumps({**GOOD, "references": [{"name": "a", "subject": "b"}]}).encode()),
]


@pytest.mark.parametrize(("key", "value"), GARBAGE, ids=lambda part: str(part)[:60])
def test_garbage_is_told_from_records(key, value):
    with pytest.raises(Unreadable):
        decode(key, value)


@given(key=st.binary(max_size=80), value=st.none() | st.binary(max_size=80))
def test_no_bytes_whatever_raise_anything_else(key, value):
    with pytest.raises(Unreadable):
        decode(key, value)


@given(st.data())
def test_no_json_whatever_raises_anything_else(data):
    leaf = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
    any_json = st.recursive(leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner))
    fields = {
        "subject": any_json | st.just("s"),
        "version": any_json | st.just(1),
        "magic": any_json | st.just(1),
    }
    key = {"keytype": data.draw(st.sampled_from(["SCHEMA", "CONFIG", "MODE", "DELETE_SUBJECT", "NOOP"]))}
    key |= {name: data.draw(value) for name, value in fields.items()}
    names = st.sampled_from(["id", "schema", "references", "mode", "compatibilityLevel", "version", "metadata"])
    value = data.draw(st.dictionaries(names, any_json))
    try:
        decode(json.dumps(key).encode(), json.dumps(value).encode())
    except Unreadable as error:
        assert str(error)
