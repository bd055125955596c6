"""Texts without which an expression cannot hold: strings that a part of the value must equal.

A search looks for them in a record's bytes, and decodes only records that may match.
"""

from __future__ import annotations

from jsonpath_rfc9535.filter_expressions import (
    ComparisonExpression,
    Expression,
    FilterQuery,
    FunctionExtension,
    LogicalExpression,
    StringLiteral,
)
from jsonpath_rfc9535.selectors import FilterSelector

MOST_TEXTS = 20


def required_texts(expression: Expression) -> list[str]:
    """Return texts that all occur among the strings of any value for which the expression holds."""
    return sorted(_required(expression))[:MOST_TEXTS]


def _required(expression: Expression) -> set[str]:
    match expression:
        case LogicalExpression(operator="&&"):
            return _required(expression.left) | _required(expression.right)
        case LogicalExpression():
            return _required(expression.left) & _required(expression.right)
        case ComparisonExpression(operator="=="):
            return _equal(expression.left, expression.right) | _equal(expression.right, expression.left)
        case FilterQuery():
            # It holds if it selects something, so each of its filters holds for something in the value.
            filters = [
                segment.selectors[0].expression.expression
                for segment in expression.query.segments
                if len(segment.selectors) == 1 and isinstance(segment.selectors[0], FilterSelector)
            ]
            return set[str]().union(*map(_required, filters))
    return set()


def _equal(side: Expression, other: Expression) -> set[str]:
    is_part = isinstance(other, FilterQuery) or (isinstance(other, FunctionExtension) and other.name == "value")
    return {side.value} if is_part and isinstance(side, StringLiteral) and side.value else set()
