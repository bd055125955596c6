"""Tests of the project itself: its architecture, its documentation, its packages."""
