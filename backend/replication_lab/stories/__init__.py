"""Frames and sentences for the steps of a run, as the console, REST and the command line show them.

Modules here import the model only.
"""
