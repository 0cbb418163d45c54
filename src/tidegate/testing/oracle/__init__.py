"""A naive model of the engine, in plain Python and batch SQL: it computes what a view must contain from all accepted
rows, by the rules of docs/semantics.md. It shares no code with the kernels."""
