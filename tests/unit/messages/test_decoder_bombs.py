"""Attacks on decoders: whatever a record, a schema or an expression does to a process, the others are decoded."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from backend.messages import decoder_process
from backend.messages.decoder_schemas import UnusableSchemas
from backend.messages.decoders import (
    Decoders,
    DecodersUnavailable,
    DecodingEnded,
    ExpressionInvalid,
    Limits,
    Parts,
    SchemaText,
)
from tests.unit.messages.encoded import field, with_id, with_indexes, zigzag
from tests.unit.messages.test_avro_values import DOUBLING, HUGE, NODE
from tests.unit.messages.test_protobuf_bounds import GROUP, nested

LONG_SECONDS = 120.0
SHORT = Limits(record_seconds=0.3, schema_seconds=1.0)


def avro(schema) -> SchemaText:
    return SchemaText("AVRO", json.dumps(schema), {})


SCHEMAS = {
    1: avro(NODE),
    2: avro(DOUBLING),
    3: avro({"type": "array", "items": "null"}),
    4: avro({"type": "bytes", "logicalType": "decimal", "precision": 10**9, "scale": 2**31}),
    5: avro({"type": "fixed", "name": "F", "size": 2**31 - 1}),
    6: avro(["null", "int"]),
    7: SchemaText("PROTOBUF", 'syntax = "proto3"; message M { M m = 1; repeated M many = 2; string s = 3; }', {}),
    8: avro({"type": "array", "items": {"type": "enum", "name": "E", "symbols": ["x" * 1_000_000]}}),
    9: avro(
        {
            "type": "array",
            "items": {
                "type": "record",
                "name": "y" * 500_000,
                "fields": [{"name": "z" * 900_000, "type": "null"}],
            },
        }
    ),
    10: avro(
        [
            {"type": "record", "name": f"R{n}", "fields": [{"name": f"f{m}", "type": "int"} for m in range(50)]}
            for n in range(400)
        ]
    ),
}


@pytest.fixture(scope="module")
def decoders() -> Iterator[Decoders]:
    made = Decoders(most=1)
    yield made
    made.close()


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Iterator[Decoders]:
    """Decoders whose processes have faults."""
    monkeypatch.setattr(decoder_process, "CHILD", "tests.unit.messages.bad_child")
    made = Decoders(most=1, limits=SHORT)
    yield made
    made.close()


def process_id(decoders: Decoders) -> int:
    process = decoders._pool._free[-1]
    assert process is not None
    return process.pid


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (with_id(1, b"\x02" * 10_000_000 + b"\0"), "deeper than 100 levels"),
        (with_id(2, zigzag(59)), "more than 250,000 values"),
        (with_id(3, HUGE + b"\0"), "more than 250,000 values"),
        (with_id(5, b"abc"), "ends too early"),
        (with_id(6, zigzag(2)), "branch 2 of a union with 2 branches"),
        (with_id(6, zigzag(2**62)), "of a union with 2 branches"),
        (with_indexes(7, field(1, nested(1, 10_000))), "deeper than 100 levels"),
        (with_indexes(7, GROUP * 100_000), "ends too early"),
        (with_indexes(7, field(3, b"abc")[:-1]), "ends too early"),
        (with_indexes(7, field(2, b"") * 1_000_000), "more than 250,000 values"),
        (b"[" * 100_000 + b"]" * 100_000, "deeper than 100 levels"),
        (with_id(8, zigzag(200_000) + b"\0" * 200_001), "more than 250,000 values"),
        (with_id(9, zigzag(100_000) + b"\0"), "more than 250,000 values"),
    ],
    ids=lambda each: str(each)[:30],
)
def test_a_record_beyond_the_limits_costs_no_process(decoders, data, problem):
    records = [Parts(None, b"before"), Parts(b"key", data), Parts(data, b"after")]
    decoders.decode(records[:1], SCHEMAS.get, None, LONG_SECONDS)
    process = process_id(decoders)
    before, bomb, after = decoders.decode(records, SCHEMAS.get, None, LONG_SECONDS)
    assert (before[1].value, bomb[0].value, after[1].value) == ("before", "key", "after")
    assert problem in bomb[1].problem and problem in after[0].problem
    assert process_id(decoders) == process


def test_a_decimal_of_a_million_digits_is_shown_as_bytes(decoders):
    data = with_id(4, zigzag(415_000) + b"\x7f" * 415_000)
    ((_, value),) = decoders.decode([Parts(None, data)], SCHEMAS.get, None, LONG_SECONDS)
    assert value.format == "avro" and len(value.value) < 600_000


def test_a_wide_schema_is_read(decoders):
    data = with_id(10, zigzag(399) + zigzag(3) * 50)
    ((_, value),) = decoders.decode([Parts(None, data)], SCHEMAS.get, None, LONG_SECONDS)
    assert value.value == {f"f{n}": 3 for n in range(50)}


def test_many_large_schemas_are_read_one_after_the_other(decoders):
    known = {
        n: avro(["int", {"type": "enum", "name": "E", "symbols": [f"{'x' * 900_000}{n}"]}]) for n in range(1, 21)
    }
    records = [Parts(None, with_id(n, zigzag(0) + zigzag(n))) for n in known]
    found = decoders.decode(records, known.get, None, LONG_SECONDS)
    assert [value.value for _, value in found] == list(known)


def test_a_problem_is_short_whatever_the_schema(decoders):
    known = {
        1: avro({"type": "record", "name": "x", "fields": [{"name": "y" * 900_000 + "-", "type": "null"}]}),
        2: SchemaText("PROTOBUF", f'syntax = "proto3"; message {"M" * 60_000} {{ }}', {}),
    }
    records = [Parts(None, with_id(1, b"x")), Parts(None, with_indexes(2, field(7, b"")))]
    found = decoders.decode(records, known.get, None, LONG_SECONDS)
    assert all(0 < len(value.problem) < 600 for _, value in found)


def test_a_process_that_keeps_much_memory_is_replaced(decoders):
    records = [Parts(None, b'{"a": "x"}')]
    decoders.decode(records, SCHEMAS.get, None, LONG_SECONDS)
    process = process_id(decoders)
    decoders.decode(records, SCHEMAS.get, 'match($.a, "(a{900}){1000}")', LONG_SECONDS)
    decoders.decode(records, SCHEMAS.get, None, LONG_SECONDS)
    assert process_id(decoders) != process


def test_json_that_takes_more_memory_than_there_is_is_shown_as_text():
    decoders = Decoders(most=1, limits=Limits(memory_bytes=192 * 1024 * 1024))
    data = b"[" + b"[]," * 3_300_000 + b"[]]"
    found = decoders.decode(
        [Parts(None, b"a"), Parts(None, data), Parts(None, b"b")], SCHEMAS.get, None, LONG_SECONDS
    )
    decoders.close()
    assert [value.format for _, value in found] == ["text", "text", "text"]
    assert found[1][1].problem == "Decoding it takes more memory than a record may use."
    assert found[1][1].value == data.decode()


@pytest.mark.parametrize(
    "expression",
    [
        "$..[?count($..*) > 1][?count($..*) > 1]",
        "count($..[?count($..*) > 1]) > 5 && $..[?count($..*) < 0]",
        "$[?$[?$[?$[?@.a == 1]]]]",
    ],
)
def test_an_expression_that_takes_too_long_is_given_up_at_the_record(expression):
    decoders = Decoders(most=1, limits=SHORT)
    bomb = json.dumps([[[n]] for n in range(2_000)]).encode()
    small = json.dumps([[{"a": 1}] * 2] * 2).encode()
    found = decoders.decode(
        [Parts(b"1", small), Parts(b"2", bomb), Parts(b"3", small)], SCHEMAS.get, expression, LONG_SECONDS
    )
    decoders.close()
    assert found[1][1].problem == "It takes longer than 0.3 s to decode and filter."
    assert found[1][0].value == "Mg==" and found[1][1].format == "bytes"
    for place in (0, 2):
        assert found[place] is None or found[place][1].problem is None


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("crash", "It ended the decoder process (SIGSEGV)."),
        ("exit", "It ended the decoder process (exit code 3)."),
        ("spin", "It takes longer than 0.3 s to decode and filter."),
        ("memory", "Decoding it takes more memory than a record may use."),
        ("garbage", "It wrote nonsense."),
        ("nonsense", "It wrote nonsense."),
        ("other", "It wrote nonsense."),
        ("too-many", "It wrote nonsense."),
        ("deep", "It wrote nonsense."),
        ("close", "It ended the decoder process (SIGKILL)."),
    ],
)
def test_a_record_that_harms_a_process_is_marked_and_no_other(faulty, fault, problem, size):
    place = size // 2
    records = [Parts(b"k", b"%d" % n) for n in range(size)]
    records[place] = Parts(b"k", f"fault:{fault}".encode())
    found = faulty.decode(records, SCHEMAS.get, None, LONG_SECONDS)
    assert found[place][1].problem == problem
    assert [value.value for _, value in found[:place] + found[place + 1 :]] == [
        str(n) for n in range(size) if n != place
    ]
    assert {value.problem for n, (_, value) in enumerate(found) if n != place} <= {None}


@pytest.mark.parametrize("fault", ["crash", "garbage"])
def test_one_of_many_records_is_found(faulty, fault):
    records = [Parts(b"k", b"%d" % n) for n in range(3_000)]
    records[1_500] = Parts(b"k", f"fault:{fault}".encode())
    found = faulty.decode(records, SCHEMAS.get, None, LONG_SECONDS)
    assert [n for n, (_, value) in enumerate(found) if value.problem is not None] == [1_500]
    assert [value.value for _, value in found[1_501:]] == [str(n) for n in range(1_501, 3_000)]


def test_a_process_that_sleeps_is_given_up_though_it_uses_no_processor(monkeypatch, faulty):
    monkeypatch.setattr(decoder_process, "_SLOWER", 2)
    found = faulty.decode([Parts(None, b"fault:sleep"), Parts(None, b"b")], SCHEMAS.get, None, LONG_SECONDS)
    assert "takes longer" in found[0][1].problem and found[1][1].value == "b"
    found = faulty.decode([Parts(None, b"fault:endless"), Parts(None, b"b")], SCHEMAS.get, None, LONG_SECONDS)
    assert found[0][1].problem and found[1][1].value == "b"


def test_every_record_may_be_a_bomb(faulty):
    records = [Parts(None, b"fault:crash")] * 5
    found = faulty.decode(records, SCHEMAS.get, None, LONG_SECONDS)
    assert [value.problem for _, value in found] == ["It ended the decoder process (SIGSEGV)."] * 5


def test_a_bomb_with_an_expression_is_shown(faulty):
    records = [Parts(None, b'{"a": 1}'), Parts(None, b"fault:crash"), Parts(None, b'{"a": 2}')]
    found = faulty.decode(records, SCHEMAS.get, "$.a == 2", LONG_SECONDS)
    assert found[0] is None and "SIGSEGV" in found[1][1].problem and found[2][1].value == {"a": 2}


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("crash", "It ended the decoder process (SIGSEGV)."),
        ("spin", "It takes longer than 1 s to read."),
        ("memory", "It takes more memory than a schema may use."),
    ],
)
def test_a_schema_that_harms_a_process_is_refused_for_a_while(faulty, fault, problem):
    bad, good = SchemaText("AVRO", f"fault:{fault}", {}), SchemaText("AVRO", '"string"', {})
    known = {1: bad, 2: good, 3: good}
    records = [Parts(None, with_id(n, zigzag(1) + b"a")) for n in (2, 1, 3, 1)]
    for _ in range(2):
        found = faulty.decode(records, known.get, None, LONG_SECONDS)
        assert [value.value for _, value in found[::2]] == ["a", "a"]
        assert [value.problem for _, value in found[1::2]] == [f"Schema 1 cannot be used. {problem}"] * 2
    process = process_id(faulty)
    faulty.decode(records, known.get, None, LONG_SECONDS)
    assert process_id(faulty) == process


@pytest.mark.parametrize("fault", ["crash", "spin", "exit"])
def test_an_expression_that_harms_a_process_is_invalid(faulty, fault):
    with pytest.raises(ExpressionInvalid):
        faulty.check(f"fault:{fault}")
    with pytest.raises(ExpressionInvalid):
        faulty.decode([Parts(None, b"x")], SCHEMAS.get, f"fault:{fault}", LONG_SECONDS)
    faulty.check("$.a")


def test_when_the_time_is_over_the_first_results_are_there(faulty):
    records = [Parts(None, b"a"), Parts(None, b"fault:sleep"), Parts(None, b"b")]
    faulty.decode(records[:1], SCHEMAS.get, None, LONG_SECONDS)
    with pytest.raises(DecodingEnded) as caught:
        faulty.decode(records, SCHEMAS.get, None, 1.0)
    assert caught.value.done == len(caught.value.results) < 2
    assert faulty.decode(records[:1], SCHEMAS.get, None, LONG_SECONDS)[0][1].value == "a"


@pytest.mark.parametrize(
    ("fault", "is_shown"), [("crash", True), ("spin", True), ("memory", True), ("invalid", False)]
)
def test_a_record_whose_schema_is_beyond_the_limits_is_shown_with_an_expression(faulty, fault, is_shown):
    known = {1: SchemaText("AVRO", f"fault:{fault}", {})}
    data = with_id(1, b"a")
    records = [Parts(None, b'{"a": 1}'), Parts(b"k", data), Parts(None, b'{"a": 2}')]
    for _ in range(2):
        found = faulty.decode(records, known.get, "$.a == 2", LONG_SECONDS)
        assert [each is not None for each in found] == [False, is_shown, True]
        if is_shown:
            key, value = found[1]
            assert (key.value, value.format, value.schema_id) == ("k", "bytes", 1)
            assert value.problem.startswith("Schema 1 cannot be used. It ")


def test_requests_with_less_time_than_a_schema_may_take_come_to_an_end(faulty):
    known = {1: SchemaText("AVRO", "fault:sleep", {})}
    records = [Parts(None, with_id(1, b"a"))]
    for _ in range(60):
        try:
            ((_, value),) = faulty.decode(records, known.get, "$.a", 0.8)
        except DecodingEnded:
            continue
        assert value.problem == "Schema 1 cannot be used. It takes longer than 1 s to read."
        return
    pytest.fail("the schema is tried for ever")


def test_a_schema_is_not_refused_before_its_time_is_over():
    schemas = UnusableSchemas(schema_seconds=10.0)
    for _ in range(5):
        schemas.given_up("slow", 2.0)
        schemas.given_up("other", 0.1)
    assert schemas.reason("slow") is None
    schemas.given_up("slow", 0.1)
    assert schemas.reason("slow") == "It takes longer than 10 s to read."
    assert schemas.reason("other") is None


@pytest.mark.parametrize(
    ("child", "reason"),
    [
        ("tests.unit.messages.no_such_module", "No module named tests.unit.messages.no_such_module"),
        ("antigravity_is_not_there", "No module named antigravity_is_not_there"),
        ("compileall", "The decoder process does not start: "),
    ],
)
def test_a_process_that_does_not_start_is_reported(monkeypatch, child, reason):
    monkeypatch.setattr(decoder_process, "CHILD", child)
    decoders = Decoders(most=1)
    for _ in range(3):
        with pytest.raises(DecodersUnavailable, match=reason):
            decoders.decode([Parts(None, b"x")], SCHEMAS.get, None, LONG_SECONDS)
        with pytest.raises(DecodersUnavailable, match=reason):
            decoders.check("$")
    monkeypatch.undo()
    assert decoders.decode([Parts(None, b"x")], SCHEMAS.get, None, LONG_SECONDS)[0][1].value == "x"
    decoders.close()


def test_a_program_that_cannot_be_started_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(decoder_process.sys, "executable", str(tmp_path / "absent"))
    with pytest.raises(DecodersUnavailable, match="No such file"):
        Decoders(most=1).decode([Parts(None, b"x")], SCHEMAS.get, None, LONG_SECONDS)


def test_a_process_that_is_never_ready_is_given_up_when_the_time_is_over(monkeypatch):
    monkeypatch.setattr(decoder_process, "CHILD", "tests.unit.messages.never_ready")
    decoders = Decoders(most=1)
    with pytest.raises(DecodingEnded):
        decoders.decode([Parts(None, b"x")], SCHEMAS.get, None, 1.0)
    decoders.close()
