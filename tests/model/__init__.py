"""Naive models that the tests compare the engine with: reference kernels and random views."""
