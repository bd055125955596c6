"""Distribution of schemas from the primary cluster to all others."""
