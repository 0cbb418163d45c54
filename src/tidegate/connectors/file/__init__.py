"""Changes and events as the lines of one file that grows and is rotated."""
