"""How loops run: compiled or by numpy, on one core or on all."""
