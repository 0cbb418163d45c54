"""Views over the event bus: paths into the JSON of events, event time, checks of what arrives."""
