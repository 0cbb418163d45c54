"""Changes printed to the terminal."""
