"""A pipeline under load while faults hit it: after each, every view and every sink must be exactly right."""
