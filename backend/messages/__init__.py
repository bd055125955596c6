"""Messages of streams, as people look at them: read from a cluster, filtered and decoded, within bounds."""
