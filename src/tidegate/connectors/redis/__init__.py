"""Changes and events in a Redis stream, or the rows of a view under their keys."""
