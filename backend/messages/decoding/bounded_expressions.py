"""Expressions whose evaluation takes little time for any short value: they need no process that can be killed.

A path to one value is followed step by step. A query for many values goes through the whole value at most once for
each of its segments, if none of these selects a value twice. A filter within a filter, or two descents in one
query, multiply their work. Regular expressions that are not plain may take years.
"""

from __future__ import annotations

from jsonpath_rfc9535.filter_expressions import (
    ComparisonExpression,
    Expression,
    FilterExpressionLiteral,
    FilterQuery,
    FunctionExtension,
    LogicalExpression,
    PrefixExpression,
    StringLiteral,
)
from jsonpath_rfc9535.segments import JSONPathRecursiveDescentSegment, JSONPathSegment
from jsonpath_rfc9535.selectors import FilterSelector

from backend.messages.decoding.patterns import is_plain

MOST_PASSES = 8
"""Most times that a bounded expression goes through a value."""
MOST_PATHS = 200
"""Most paths to one value that a bounded expression follows."""
_UNBOUNDED = MOST_PASSES + 1


def is_bounded(expression: Expression) -> bool:
    """Return whether an expression goes through a value only a few times, whatever the value is."""
    return _passes(expression) <= MOST_PASSES and _terms(expression) <= MOST_PATHS


def _passes(expression: Expression) -> int:
    match expression:
        case LogicalExpression():
            return _passes(expression.left) + _passes(expression.right)
        case PrefixExpression():
            return _passes(expression.right)
        case ComparisonExpression():
            sides = expression.left, expression.right
            # Two objects or arrays are compared part by part.
            compared = not any(isinstance(side, FilterExpressionLiteral) for side in sides)
            return compared + sum(map(_passes, sides))
        case FilterQuery() if expression.query.singular_query():
            return 0
        case FilterQuery():
            segments = expression.query.segments
            if sum(isinstance(each, JSONPathRecursiveDescentSegment) for each in segments) > 1:
                return _UNBOUNDED
            return sum(map(_passes_of, segments))
        case FunctionExtension(name="length" | "count" | "value"):
            return _passes(expression.args[0])
        case FunctionExtension(name="match" | "search", args=[text, StringLiteral() as pattern]):
            return 1 + _passes(text) if is_plain(pattern.value) else _UNBOUNDED
        case FilterExpressionLiteral():
            return 0
    return _UNBOUNDED


def _passes_of(segment: JSONPathSegment) -> int:
    match segment.selectors:
        case [FilterSelector() as only]:
            inner = only.expression.expression
            return 1 + _terms(inner) if _passes(inner) == 0 else _UNBOUNDED
        case [_]:
            return 1
    return _UNBOUNDED


def _terms(expression: Expression) -> int:
    match expression:
        case LogicalExpression():
            return _terms(expression.left) + _terms(expression.right)
        case PrefixExpression():
            return _terms(expression.right)
    return 1
