"""Local estates, and the groups and applications that run on them."""
