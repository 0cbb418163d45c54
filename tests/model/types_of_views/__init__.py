"""Every type of a column, and every operator that a column can be in."""
