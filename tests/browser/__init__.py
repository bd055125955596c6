"""Tests that show pages of the console in Chromium."""
