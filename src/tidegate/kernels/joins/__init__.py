"""Joins: two inputs whose rows match if keys are equal and conditions hold."""
