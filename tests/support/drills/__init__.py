"""Faults on a real cluster by a schedule, and the judgement of what it kept."""
