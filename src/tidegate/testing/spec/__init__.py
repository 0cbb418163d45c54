"""Spec files: the behaviour of a pipeline as readable tests, run in virtual time."""
