"""JSONPath expressions (RFC 9535) over a decoded value, compiled to functions.

An expression is what may stand in a filter of RFC 9535, with `$` and `@` both for the whole value: a comparison
such as `$.status == "paid" && $.n > 5`, or a query such as `$.lines[?@.n > 3]`, which holds if it selects a value.

The package jsonpath-rfc9535 parses. It is not used for evaluation: there it builds an object with a location for
each node, which takes six times as long, and it rounds integers beyond 2**53, as ids in records often are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from jsonpath_rfc9535 import JSONPathEnvironment
from jsonpath_rfc9535.exceptions import JSONPathError
from jsonpath_rfc9535.filter_expressions import (
    ComparisonExpression,
    Expression,
    FilterExpressionLiteral,
    FilterQuery,
    FunctionExtension,
    IntegerLiteral,
    LogicalExpression,
    PrefixExpression,
    RelativeFilterQuery,
)
from jsonpath_rfc9535.segments import JSONPathRecursiveDescentSegment, JSONPathSegment
from jsonpath_rfc9535.selectors import (
    FilterSelector,
    IndexSelector,
    JSONPathSelector,
    NameSelector,
    SliceSelector,
    WildcardSelector,
)

from backend.messages.decoding.bounded_expressions import is_bounded
from backend.messages.decoding.bounds import EvaluationFailed
from backend.messages.decoding.comparisons import NOTHING, comparison
from backend.messages.decoding.patterns import PatternInvalid, pattern_test
from backend.messages.decoding.required_texts import required_texts

MOST_CHARACTERS = 16_000
MOST_NODES = 1_000_000
"""Most nodes that a step of a query may select."""
_BEFORE, _AFTER = "$[?", "]"
_PLACES = re.compile(r" (starting )?at index \d+")

Test = Callable[[Any, Any], bool]
"""A condition on the current value and the root."""
Find = Callable[[Any, Any], Any]
"""Finds a value, or NOTHING, from the current value and the root."""
FindAll = Callable[[Any, Any], list[Any]]
Select = Callable[[Any, Any, list[Any]], None]
"""Appends what a selector selects from a value, given the root, to a list."""


class ExpressionWrong(Exception):
    """A text is not an expression; `position` counts its characters from 0."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason, position)
        self.reason, self.position = reason, position


class Compiled(NamedTuple):
    """An expression that can be evaluated."""

    holds: Callable[[Any], bool]
    """Returns whether it holds for a value. Raises EvaluationFailed."""
    required: list[str]
    """Texts that occur in each value for which it holds."""
    is_bounded: bool
    """True if its evaluation takes little time for any short value."""


def compiled(text: str) -> Compiled:
    """Return an expression that can be evaluated. Raises ExpressionWrong."""
    if len(text) > MOST_CHARACTERS:
        raise ExpressionWrong(f"it is longer than {MOST_CHARACTERS:,} characters", MOST_CHARACTERS)
    try:
        parsed = JSONPathEnvironment().compile(_BEFORE + text + _AFTER)
        match [(segment, segment.selectors) for segment in parsed.segments]:
            case [(_, (FilterSelector() as only,))]:
                expression = only.expression.expression
                test = _test(expression)
                return Compiled(
                    lambda value: test(value, value), required_texts(expression), is_bounded(expression)
                )
            case _:
                raise ExpressionWrong("a bracket is closed that was not opened", max(0, text.find("]")))
    except JSONPathError as error:
        raise _wrong(error, text) from error
    except RecursionError as error:
        raise ExpressionWrong("it is nested too deeply", 0) from error
    except (ArithmeticError, LookupError, ValueError) as error:
        raise ExpressionWrong("a number or an escape sequence in it is invalid", 0) from error


def _wrong(error: JSONPathError, text: str) -> ExpressionWrong:
    token, message = error.token, str(error.args[0]) if error.args else "it is invalid"
    position = (
        len(text) if token is None or token.index < 0 else min(max(0, token.index - len(_BEFORE)), len(text))
    )
    if position == len(text):
        message = "unexpected end"
    elif "TokenType" in message or message.startswith("expected") or "selector token" in message:
        message = f"unexpected {text[position]!r}"
    message = _PLACES.sub("", message)
    if position == 0 and "$" not in text and "@" not in text:
        message += "; a path begins with $, such as $.status"
    elif text[position : position + 2].strip("=") and text.startswith("=", position):
        message += "; values are compared by =="
    return ExpressionWrong(message, position)


def _at(expression: Expression) -> int:
    return max(0, expression.token.index - len(_BEFORE))


def _test(expression: Expression) -> Test:
    match expression:
        case LogicalExpression(operator="&&"):
            left, right = _test(expression.left), _test(expression.right)
            return lambda current, root: left(current, root) and right(current, root)
        case LogicalExpression():
            left, right = _test(expression.left), _test(expression.right)
            return lambda current, root: left(current, root) or right(current, root)
        case PrefixExpression():
            inner = _test(expression.right)
            return lambda current, root: not inner(current, root)
        case ComparisonExpression():
            return _comparison(expression)
        case FilterQuery() if expression.query.singular_query():
            find = _value(expression)
            return lambda current, root: find(current, root) is not NOTHING
        case FilterQuery():
            return _exists(expression)
        case FunctionExtension(name="match" | "search"):
            return _pattern(expression)
    raise ExpressionWrong("a value must be compared with another", _at(expression))


def _comparison(expression: ComparisonExpression) -> Test:
    sides = expression.left, expression.right
    left, right = map(_value, sides)
    if isinstance(sides[1], FilterExpressionLiteral):
        compare = comparison(expression.operator, constant=right(None, None))
        return lambda current, root: compare(left(current, root), None)
    compare = comparison(expression.operator)
    return lambda current, root: compare(left(current, root), right(current, root))


def _value(expression: Expression) -> Find:
    match expression:
        case FilterExpressionLiteral():
            constant = _literal(expression)
            return lambda _current, _root: constant
        case FilterQuery() if expression.query.singular_query():
            return _singular(expression)
        case FunctionExtension(name="length"):
            measured = _value(expression.args[0])
            return lambda current, root: _length(measured(current, root))
        case FunctionExtension(name="count"):
            counted = _nodes(expression.args[0])
            return lambda current, root: len(counted(current, root))
        case FunctionExtension(name="value"):
            found = _nodes(expression.args[0])
            return lambda current, root: _only(found(current, root))
    raise ExpressionWrong("a single value is needed here", _at(expression))


def _literal(expression: FilterExpressionLiteral[Any]) -> Any:
    digits = expression.token.value
    # The parser's own value of an integer went through a float.
    return (
        int(digits)
        if isinstance(expression, IntegerLiteral) and digits.lstrip("-").isdigit()
        else expression.value
    )


def _length(value: Any) -> Any:
    return len(value) if isinstance(value, str | list | dict) else NOTHING


def _only(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else NOTHING


def _pattern(expression: FunctionExtension) -> Test:
    text, pattern = expression.args
    find = _value(text)
    try:
        if isinstance(pattern, FilterExpressionLiteral):
            test = pattern_test(expression.name, _literal(pattern), is_constant=True)
            return lambda current, root: test(find(current, root), None)
        test, find_pattern = pattern_test(expression.name), _value(pattern)
    except PatternInvalid as error:
        raise ExpressionWrong(str(error), _at(pattern)) from error
    return lambda current, root: test(find(current, root), find_pattern(current, root))


def _singular(query: FilterQuery) -> Find:
    return _path(query.query.segments, relative=isinstance(query, RelativeFilterQuery))


def _path(segments: Sequence[JSONPathSegment], *, relative: bool) -> Find:
    """Return the function for steps of which each selects one value at most."""
    keys = tuple(_key(segment.selectors[0]) for segment in segments)
    if len(keys) == 1 and isinstance(keys[0], str):
        name = keys[0]
        if relative:
            return lambda current, _root: current.get(name, NOTHING) if type(current) is dict else NOTHING
        return lambda _current, root: root.get(name, NOTHING) if type(root) is dict else NOTHING

    def find(current: Any, root: Any) -> Any:
        found = current if relative else root
        for key in keys:
            if isinstance(key, str):
                found = found.get(key, NOTHING) if type(found) is dict else NOTHING
            elif type(found) is list and -len(found) <= key < len(found):
                found = found[key]
            else:
                return NOTHING
        return found

    return find


def _key(selector: JSONPathSelector) -> str | int:
    if isinstance(selector, NameSelector):
        return selector.name
    assert isinstance(selector, IndexSelector)
    return selector.index


def _nodes(expression: Expression) -> FindAll:
    assert isinstance(expression, FilterQuery)
    # The first steps usually select one value each, which need no lists.
    segments = list(expression.query.segments)
    first = list(takewhile(_selects_one, segments))
    begin = _path(first, relative=isinstance(expression, RelativeFilterQuery))
    steps = [_step(segment) for segment in segments[len(first) :]]

    def find_all(current: Any, root: Any) -> list[Any]:
        found = begin(current, root)
        nodes = [] if found is NOTHING else [found]
        for step in steps:
            nodes = step(nodes, root)
        return nodes

    return find_all


def _exists(expression: FilterQuery) -> Test:
    """Return whether a query selects anything; a filter at its end is evaluated up to the first value."""
    *first, last = expression.query.segments
    match last.selectors:
        case (FilterSelector() as only,) if not _descends(last) and all(map(_selects_one, first)):
            return _exists_among(expression, first, _test(only.expression.expression))
    find_all = _nodes(expression)
    return lambda current, root: bool(find_all(current, root))


def _exists_among(expression: FilterQuery, first: Sequence[JSONPathSegment], test: Test) -> Test:
    begin = _path(first, relative=isinstance(expression, RelativeFilterQuery))

    def exists(current: Any, root: Any) -> bool:
        for child in _children(begin(current, root)):  # noqa: SIM110 - a generator takes a third longer
            if test(child, root):
                return True
        return False

    return exists


def _selects_one(segment: JSONPathSegment) -> bool:
    one = len(segment.selectors) == 1 and isinstance(segment.selectors[0], NameSelector | IndexSelector)
    return one and not _descends(segment)


def _descends(segment: JSONPathSegment) -> bool:
    return isinstance(segment, JSONPathRecursiveDescentSegment)


def _step(segment: JSONPathSegment) -> Callable[[list[Any], Any], list[Any]]:
    selects = [_selector(each) for each in segment.selectors]
    descends = _descends(segment)

    def step(nodes: list[Any], root: Any) -> list[Any]:
        selected: list[Any] = []
        for node in nodes:
            for each in _with_descendants(node) if descends else (node,):
                for select in selects:
                    select(each, root, selected)
            if len(selected) > MOST_NODES:
                raise EvaluationFailed(f"A step of the expression selects more than {MOST_NODES:,} values in it.")
        return selected

    return step


def _with_descendants(value: Any) -> list[Any]:
    """Return a value and all objects and arrays within it, which are all that selectors select from."""
    found = [value]
    for each in found:
        inner = each.values() if type(each) is dict else each if type(each) is list else ()
        found += [one for one in inner if type(one) in (dict, list)]
    return found


def _selector(selector: JSONPathSelector) -> Select:
    match selector:
        case NameSelector():
            return lambda value, _, selected: _append_member(value, selector.name, selected)
        case IndexSelector():
            return lambda value, _, selected: _append_element(value, selector.index, selected)
        case SliceSelector():
            taken = selector.slice
            return lambda value, _, selected: _append_slice(value, taken, selected)
        case WildcardSelector():
            return lambda value, _, selected: selected.extend(_children(value))
        case FilterSelector():
            test = _test(selector.expression.expression)
            return lambda value, root, selected: selected.extend(
                [child for child in _children(value) if test(child, root)]
            )
    raise AssertionError(selector)


def _children(value: Any) -> Any:
    return value.values() if type(value) is dict else value if type(value) is list else ()


def _append_member(value: Any, name: str, selected: list[Any]) -> None:
    if type(value) is dict and name in value:
        selected.append(value[name])


def _append_element(value: Any, index: int, selected: list[Any]) -> None:
    if type(value) is list and -len(value) <= index < len(value):
        selected.append(value[index])


def _append_slice(value: Any, taken: slice, selected: list[Any]) -> None:
    if type(value) is list and taken.step != 0:
        selected.extend(value[taken])
