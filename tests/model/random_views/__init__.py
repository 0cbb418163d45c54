"""Random schemas, queries, rows and steps, held against Spark's batch answer after every step."""
