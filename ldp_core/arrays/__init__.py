"""Arrow columns to numpy arrays and back, and the types of arrays."""
