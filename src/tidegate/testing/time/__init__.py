"""A naive model of time: frontiers, late rows, windows, and when results leave. It follows design/semantics.md §1-§4,
keeps every row and knows nothing of the engine."""
