"""Where replicas go: on which brokers, in which order, and at what cost. No Kafka, no Spark, no database."""
