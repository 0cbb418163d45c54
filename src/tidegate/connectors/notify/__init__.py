"""Notifications of a PostgreSQL database (`NOTIFY`) as events."""
