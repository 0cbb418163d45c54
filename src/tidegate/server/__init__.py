"""HTTP endpoints of a running database."""
