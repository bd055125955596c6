"""Base of all rules: events, errors, REST calls in messages, figures in words, ranges of numbers.

It imports no other room of this layer.
"""
