"""`treeline verify`: marked records are produced on each cluster and must arrive on all clusters exactly once."""
