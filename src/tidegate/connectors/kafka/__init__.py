"""Topics of a Kafka cluster: read by Spark, written in transactions."""
