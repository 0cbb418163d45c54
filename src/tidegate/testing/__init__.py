"""Testing pipelines: spec files, the oracle, random views."""
