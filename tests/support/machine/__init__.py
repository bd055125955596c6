"""Disks and folders of the machine that runs the tests."""
