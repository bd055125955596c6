"""Measures kept over time: which there are, and how samples become points of a chart.

Of this layer's rooms it imports access and base.
"""
