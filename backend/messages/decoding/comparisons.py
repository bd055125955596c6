"""Comparisons of JSON values as RFC 9535 (2.3.5.2.2) defines them: a value equals only values of its own type."""

from __future__ import annotations

import operator as operators
from collections.abc import Callable
from typing import Any, Final


class _Nothing:
    """Result of a query that selects no value."""


NOTHING: Final = _Nothing()
_UNKNOWN: Final = object()

_NUMBERS: Final = frozenset({int, float})
_OF_NUMBERS: Final = {"<": operators.lt, ">": operators.gt, "<=": operators.le, ">=": operators.ge}

Compare = Callable[[Any, Any], bool]


def comparison(operator: str, *, constant: Any = _UNKNOWN) -> Compare:
    """Return the function for an operator. With a constant, that is the right side and the argument is ignored."""
    if constant is _UNKNOWN:
        return _OPERATORS[operator]
    if operator == "==":
        return _equal_to(constant)
    if operator == "!=":
        equals = _equal_to(constant)
        return lambda left, _right: not equals(left, None)
    if type(constant) in _NUMBERS:
        python = _OF_NUMBERS[operator]
        return lambda left, _right: type(left) in _NUMBERS and python(left, constant)
    compare = _OPERATORS[operator]
    return lambda left, _right: compare(left, constant)


def equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal. Python's own operator takes true for 1."""
    kind = type(left)
    if kind is not type(right):
        return kind in (int, float) and type(right) in (int, float) and left == right
    if kind is dict:
        return left.keys() == right.keys() and all(equal(each, right[name]) for name, each in left.items())
    if kind is list:
        return len(left) == len(right) and all(map(equal, left, right))
    return bool(left == right)


def _equal_to(constant: Any) -> Compare:
    if isinstance(constant, str):
        return lambda left, _right: left == constant
    if constant is None or isinstance(constant, bool):
        return lambda left, _right: left is constant
    return lambda left, _right: left == constant and type(left) is not bool


def _less(left: Any, right: Any) -> bool:
    kind, other = type(left), type(right)
    if kind in (int, float):
        return other in (int, float) and left < right
    return kind is str and other is str and left < right


_OPERATORS: dict[str, Compare] = {
    "==": equal,
    "!=": lambda left, right: not equal(left, right),
    "<": _less,
    ">": lambda left, right: _less(right, left),
    "<=": lambda left, right: _less(left, right) or equal(left, right),
    ">=": lambda left, right: _less(right, left) or equal(left, right),
}
