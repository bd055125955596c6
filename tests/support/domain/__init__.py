"""Trees, plans and instances for the pure rules."""
