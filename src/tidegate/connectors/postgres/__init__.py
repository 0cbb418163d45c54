"""Tables of a PostgreSQL database: read as a whole, again and again."""
