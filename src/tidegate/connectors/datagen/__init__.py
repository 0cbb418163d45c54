"""Generated rows, the same for the same seed: for demos, tests and benchmarks."""
