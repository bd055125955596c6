"""A cluster switch: measuring whether the new cluster has all, and taking consumer groups there."""
