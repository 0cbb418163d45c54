"""Helpers that every package shares: schemas and types, column names, durations, rendering, quoting, files."""
