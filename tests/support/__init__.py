"""Modules and fixtures that tests of several rooms use, by topic."""
