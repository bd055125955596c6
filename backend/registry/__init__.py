"""Schema registries: one for each cluster, with the API of Confluent's registry, on the cluster's own topic."""
