"""Calls of all scalar functions of Spark, and rows with values that make them fail."""
