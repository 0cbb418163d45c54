"""Joins: two inputs, whose rows meet where keys are equal and conditions hold."""
