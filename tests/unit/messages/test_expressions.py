"""JSONPath expressions: which hold for a value, which are refused and where, and their limits."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonpath_rfc9535 import JSONPathEnvironment

from backend.messages.decoders import CheckedExpression
from backend.messages.decoding import expressions, patterns
from backend.messages.decoding.bounds import EvaluationFailed
from backend.messages.decoding.expressions import ExpressionWrong, compiled
from backend.messages.fetched_messages import passing
from backend.messages.filters import Filters
from tests.unit.messages.scanned_log import message

ORDER = {
    "status": "paid",
    "n": 5,
    "big": 9007199254740993,
    "price": 12.5,
    "yes": True,
    "no": False,
    "nothing": None,
    "empty": [],
    "name": "Ärger 😀",
    "lines": [{"n": 1, "sku": "a-1"}, {"n": 4, "sku": "b-22", "tags": ["x", "y"]}, 7],
    "nested": {"deep": {"n": 9}},
    "pattern": "b-[0-9]+",
}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('$.status == "paid"', True),
        ("$.status == 'open'", False),
        ('@.status == "paid"', True),
        ('"paid" == $.status', True),
        ('$.status == "paid" && $.n > 5', False),
        ('$.status == "paid" && $.n >= 5', True),
        ('$.status == "open" || $.n < 6', True),
        ('!($.status == "open")', True),
        ("!$.absent", True),
        ("$.nothing", True),
        ("$.no", True),
        ("$.absent", False),
        ("$.nothing == null", True),
        ("$.absent == null", False),
        ("$.absent == $.also_absent", True),
        ("$.absent != 1", True),
        ("$.absent < 1", False),
        ("$.absent <= $.also_absent", True),
        ("$.yes == true", True),
        ("$.yes == 1", False),
        ("$.n == true", False),
        ("$.n == 5.0", True),
        ('$.n == "5"', False),
        ("$.n != $.n", False),
        ("$.yes < 2", False),
        ("$.big == 9007199254740993", True),
        ("$.big == 9007199254740992", False),
        ("$.price == 12.5", True),
        ("$.price < 1.3e1", True),
        ('$.status < "q"', True),
        ('$.status < 3 || $.status >= "q"', False),
        ("$.lines[0].n == 1", True),
        ("$.lines[-1] == 7", True),
        ("$.lines[7] == 7", False),
        ("$['nested']['deep'].n == 9", True),
        ("$.lines[?@.n > 3]", True),
        ("$.lines[?@.n > 4]", False),
        ("$.lines[?@.n < $.n].sku", True),
        ("$.lines[?@.tags[?@ == 'y']]", True),
        ("$.lines[?@.tags[?@ == 'z']]", False),
        ("$..n", True),
        ("$..[?@.n == 9]", True),
        ("$..absent", False),
        ("$.lines[*].tags[1:]", True),
        ("$.lines[*].tags[2:]", False),
        ("$.lines[::-1]", True),
        ("$.lines[::0]", False),
        ("$.empty[*]", False),
        ("$.*", True),
        ("$", True),
        ("length($.lines) == 3", True),
        ("length($.name) == 7", True),
        ("length($.n) == 1", False),
        ("count($.lines[*].n) == 2", True),
        ("count($.*.n) > 1", False),
        ("value($..deep).n == 9", None),
        ("value($..deep) == $.nested.deep", True),
        ('match($.status, "p..d")', True),
        ('match($.status, "p")', False),
        ('search($.status, "ai")', True),
        ('search("n=0123456789", "=[0-9]{10}$")', True),
        ('match("0123456789", "\\\\d{9,12}")', True),
        ("match($.n, '5')", False),
        ("match($.status, 5)", False),
        ("match($.lines[1].sku, $.pattern)", True),
        ("search($.name, '\\\\p{Lu}')", True),
        ("$.lines[?search(@.sku, $.pattern)]", True),
        ('match("a\\nb", "a.b")', False),
        ('match("a.b", "a[.]b") && !match("axb", "a[.]b")', True),
        ("$.nested == $.nested.deep", False),
        ("$['lines', 'absent']", True),
        ("($.a || $.status) && (($.n == 5))", True),
    ],
)
def test_an_expression_holds_or_not(expression, expected):
    if expected is None:
        with pytest.raises(ExpressionWrong):
            compiled(expression)
    else:
        assert compiled(expression).holds(ORDER) is expected


@pytest.mark.parametrize(
    ("expression", "value", "expected"),
    [
        ("$ == 'text'", "text", True),
        ("$ == null", None, True),
        ("$[0] == true", [1], False),
        ("$.a == $.b", {"a": [1, {"x": True}], "b": [1.0, {"x": True}]}, True),
        ("$.a == $.b", {"a": [1, {"x": True}], "b": [1, {"x": 1}]}, False),
        ("$.a == $.b", {"a": {"x": 1}, "b": {"x": 1, "y": 2}}, False),
        ("$.a", "a text", False),
        ("$..a", 17, False),
    ],
)
def test_the_value_may_be_of_any_type(expression, value, expected):
    assert compiled(expression).holds(value) is expected


@pytest.mark.parametrize(
    ("expression", "position", "reason"),
    [
        ("", 0, "unexpected end"),
        ("$.a ==", 6, "unexpected end"),
        ("$.a = 1", 4, "values are compared by =="),
        ('status == "paid"', 0, r"a path begins with \$"),
        ("$.a == 'x", 8, "unclosed string"),
        ("$.a == 'x\\y'", 8, "invalid escape"),
        ("$.a == 1e400", 0, "a number or an escape sequence in it is invalid"),
        ("$.a == 01", 7, "invalid integer literal"),
        ("$.a]", 4, "unexpected end"),
        ("1==1][?2==2", 4, "a bracket is closed that was not opened"),
        ("$.a) || ($.b", 3, "unbalanced parentheses"),
        ("$.a, $.b", 5, "unexpected"),
        ("$..a == 1", 5, "not comparable"),
        ("length($.a)", 0, "must be compared"),
        ("!length($.a)", 1, "must be compared"),
        ("foo($.a)", 0, "not defined"),
        ("match($.a, '[')", 12, "the pattern is not a regular expression"),
        ("true", 0, "must be compared"),
        ("$.a && 1", 7, "must be compared"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(expression, position, reason):
    with pytest.raises(ExpressionWrong, match=reason) as caught:
        compiled(expression)
    assert caught.value.position == position
    assert "TokenType" not in caught.value.reason


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 3000 + "$.a" + ")" * 3000,
        "!" * 3000 + "$.a",
        "$.a && " * 2000 + "$.a",
        "$[?@" * 2000 + "]" * 2000,
        "length(" * 2000 + "$.a" + ")" * 2000 + " == 1",
        "x" * 20_000,
        "$.a == " + "1" * 10_000,
        "\0\ud800",
    ],
    ids=lambda expression: expression[:7],
)
def test_no_expression_is_too_much_for_the_parser(expression):
    with pytest.raises(ExpressionWrong):
        compiled(expression)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("$.status == 'paid'", ["paid"]),
        ("'paid' == $.status && $.n > 5", ["paid"]),
        ("$.a == 'x' && ($.b == 'y' && !($.c == 'z'))", ["x", "y"]),
        ("$.a == 'x' || $.b == 'y'", []),
        ("($.a == 'x' && $.n == 1) || ($.b == 'x' && $.n == 2)", ["x"]),
        ("$.lines[?@.sku == 'a-1' && @.n > 3]", ["a-1"]),
        ("$..[?@.sku == 'a-1'].name", ["a-1"]),
        ("$.lines[?@.sku == 'a-1', 0]", []),
        ("value($..status) == 'paid'", ["paid"]),
        ("length($.a) == 'x'", []),
        ("'x' == 'x'", []),
        ("$.a == ''", []),
        ("$.status != 'paid'", []),
        ("$.status >= 'paid'", []),
        ("search($.status, 'paid')", []),
        ("$.a == $.b", []),
    ],
)
def test_texts_that_an_expression_requires(expression, expected):
    assert compiled(expression).required == expected


PARTS = st.recursive(
    st.sampled_from(["x", "y", "", "é", 1, None]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=8,
)
TESTS = st.recursive(
    st.builds(
        "{} {} {}".format,
        st.sampled_from(["$.a", "$.b.a", "$[0]", "@.a", "$", "value($..a)"]),
        st.sampled_from(["==", "!=", "<="]),
        st.sampled_from(["'x'", "'y'", "'é'", "''", "$.b"]),
    ),
    lambda inner: (
        st.builds("({} && {})".format, inner, inner)
        | st.builds("({} || {})".format, inner, inner)
        | st.builds("!({})".format, inner)
        | st.builds("$[?{}]".format, inner)
        | st.builds("$..[?{}].a".format, inner)
    ),
    max_leaves=4,
)


@given(TESTS, PARTS, st.booleans())
def test_required_texts_are_in_each_value_for_which_an_expression_holds(expression, value, ascii_only):
    found = compiled(expression)
    may_match = passing(Filters(), CheckedExpression(tuple(found.required)))
    records = [message(0, 0, json.dumps(value, ensure_ascii=ascii_only).encode())]
    if found.holds(value) and may_match is not None:
        assert may_match(records) == records


@given(st.text(alphabet="$@.[]()?*!=<>&|'\"\\ ,:abn019-eE\0é", max_size=40))
def test_any_text_is_compiled_or_refused(text):
    try:
        compiled(text).holds(ORDER)
    except ExpressionWrong as error:
        assert 0 <= error.position <= len(text) and error.reason
    except EvaluationFailed:
        pass


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["a", "b", 0.5, 1.0]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
STEPS = st.sampled_from(
    [".a", "['b']", "[0]", "[-1]", "[*]", "..c", "..[0]", "[0:2]", "[::-1]", "['a', 1]", "[?@.a]"]
)
QUERIES = st.builds(lambda steps: "$" + "".join(steps), st.lists(STEPS, max_size=3))
SINGULAR = st.builds(
    lambda steps: "$" + "".join(steps), st.lists(st.sampled_from([".a", ".b", "[0]", "[-2]"]), max_size=3)
)
OPERANDS = SINGULAR | st.sampled_from(["1", "0", "-1", "0.5", "'a'", "true", "false", "null"])
COMPARISONS = st.builds(
    lambda left, operator, right: f"{left} {operator} {right}",
    OPERANDS,
    st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
    OPERANDS,
)
TESTS = st.recursive(
    QUERIES | COMPARISONS,
    lambda inner: (
        st.builds(
            lambda left, operator, right: f"({left} {operator} {right})",
            inner,
            st.sampled_from(["&&", "||"]),
            inner,
        )
        | st.builds(lambda each: f"!({each})", inner)
    ),
    max_leaves=4,
)


def has_booleans(value) -> bool:
    if isinstance(value, dict | list):
        return any(map(has_booleans, value.values() if isinstance(value, dict) else value))
    return isinstance(value, bool)


@settings(max_examples=300)
@given(TESTS, VALUES)
def test_results_are_those_of_the_library(expression, value):
    # Within arrays and objects, the library takes true for 1.
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if any(isinstance(each, dict | list) and has_booleans(each) for each in (*inner, value)):
        return
    # `$` is the root there, which is the value itself here.
    query = JSONPathEnvironment().compile(f"$[?{expression}]").segments[0].selectors[0]
    context = type("Context", (), {"current": value, "root": value, "env": query.env})()
    assert compiled(expression).holds(value) is query.expression.evaluate(context)


def test_a_step_that_selects_too_much_fails(monkeypatch):
    monkeypatch.setattr(expressions, "MOST_NODES", 100)
    with pytest.raises(EvaluationFailed, match="more than 100 values"):
        compiled("$..*..*").holds([[[0] * 50] * 3] * 3)


@pytest.mark.parametrize("text", ["x" * 50_000, "x" * 5_000 + "!"])
@pytest.mark.parametrize("pattern", ["((x+x+)+y)", "(x|xx)*y", "(x*)*y", "((x?){9}){9}y"])
def test_a_regular_expression_ends_in_time(monkeypatch, pattern, text):
    monkeypatch.setattr(patterns, "MATCH_SECONDS", 0.05)
    for function in ("match", "search"):
        try:
            expression = f"{function}($, $$)".replace("$$", repr(pattern.replace("?:", "")))
            assert not compiled(expression).holds(text)
        except EvaluationFailed as error:
            assert str(error) == "The regular expression takes longer than 0.05 s on it."


PLAIN = st.builds(
    lambda parts, repeated: "".join(parts[:2]) + repeated + "".join(parts[2:]),
    st.lists(st.sampled_from(["a", ".", "[a-c]", "[^b]", r"\d", r"\.", "^", "$", "|", "é"]), max_size=4),
    st.sampled_from(["", "a*", ".+", "[ab]?", r"\w*"]),
)


@given(PLAIN, st.text(alphabet="ab1.\né", max_size=6), st.sampled_from(["match", "search"]))
def test_a_plain_pattern_finds_the_same_without_a_watch(pattern, text, function):
    assert patterns.is_plain(pattern)
    watched = patterns.pattern_test(function)(text, pattern)
    assert patterns.pattern_test(function, pattern, is_constant=True)(text, None) is watched
    assert not patterns.pattern_test(function, pattern, is_constant=True)(17, None)


def test_a_pattern_from_a_record_may_be_anything():
    holds = compiled("match($.text, $.pattern)").holds
    for pattern in (
        "(" * 200_000,
        "(" * 499 + "a" + ")" * 499,
        "[",
        "a" * 1_001,
        "\ud800",
        "^b$",
        17,
        None,
        ["a"],
    ):
        assert not holds({"text": "a" * 10, "pattern": pattern})
    assert holds({"text": "aaa", "pattern": "a{1,3}"})
