"""Moving the replicas of placements that are applied, or taken back."""
