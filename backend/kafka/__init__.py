"""Everything that speaks to Kafka; no other package imports a Kafka library."""
