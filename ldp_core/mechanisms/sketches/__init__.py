"""Values that nobody listed before; candidates come later."""
