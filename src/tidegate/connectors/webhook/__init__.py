"""Events by HTTP: posted to others, and taken from them."""
