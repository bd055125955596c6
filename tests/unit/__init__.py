"""Tests that need neither a database, a broker, a browser nor a served control plane."""
