"""Metrics that a PromQL expression queries, and the labels of its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import promql_parser as promql

SCRAPED = frozenset({"job", "instance"})
"""Labels that Prometheus adds to every scrape."""
_SELECTING = {"topk", "bottomk"}


class Wrong(Exception):
    """An expression names an unknown metric or label."""


def labels_of(text: str, metrics: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the labels of an expression's result.

    Raises Wrong for unknown metrics and labels, and ValueError for what cannot be parsed.
    """
    # Variables that Grafana fills in before it queries.
    return _labels(promql.parse(text.replace("$__rate_interval", "1m")), metrics)


def _labels(expression: Any, metrics: Mapping[str, frozenset[str]]) -> frozenset[str]:
    match expression:
        case promql.VectorSelector():
            return _selected(expression, metrics)
        case promql.MatrixSelector():
            return _selected(expression.vector_selector, metrics)
        case promql.Call():
            found = [_labels(each, metrics) for each in expression.args]
            return found[0] if found else frozenset()
        case promql.AggregateExpr():
            return _aggregated(expression, metrics)
        case promql.BinaryExpr():
            return _combined(expression, metrics)
        case promql.ParenExpr():
            return _labels(expression.expr, metrics)
        case promql.NumberLiteral():
            return frozenset()
    raise Wrong(f"{expression}: not looked at yet")


def _selected(selector: Any, metrics: Mapping[str, frozenset[str]]) -> frozenset[str]:
    if selector.name not in metrics:
        raise Wrong(f"there is no metric {selector.name}")
    labels = metrics[selector.name] | SCRAPED
    for matcher in selector.matchers.matchers:
        _known({matcher.name}, labels, selector)
    return labels


def _aggregated(expression: Any, metrics: Mapping[str, frozenset[str]]) -> frozenset[str]:
    within = _labels(expression.expr, metrics)
    if str(expression.op) in _SELECTING:
        return within
    if expression.modifier is None:
        return frozenset()
    _known(set(expression.modifier.labels), within, expression)
    return frozenset(expression.modifier.labels)


def _combined(expression: Any, metrics: Mapping[str, frozenset[str]]) -> frozenset[str]:
    left, right = _labels(expression.lhs, metrics), _labels(expression.rhs, metrics)
    matching = expression.modifier.matching if expression.modifier else None
    if matching is not None:
        _known(set(matching.labels), left & right, expression)
    return left or right


def _known(named: set[str], labels: frozenset[str], where: Any) -> None:
    if unknown := named - labels:
        raise Wrong(f"{where} has no label {sorted(unknown)[0]}")
