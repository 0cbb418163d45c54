"""Rows of an outbox table of a PostgreSQL database as events."""
