"""Runs of the model: played on a seeded clock, searched exhaustively, shrunk, and reported as drills.

Modules here import the model, the scenarios and the stories.
"""
