"""What many reports add up to and what hides among them: numbers alone, without mechanisms, columns or records."""
