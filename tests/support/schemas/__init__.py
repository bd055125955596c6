"""Registries of an estate, and written logs of schemas topics."""
