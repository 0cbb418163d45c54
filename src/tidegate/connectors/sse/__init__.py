"""Events to browsers and programs, as server-sent events."""
